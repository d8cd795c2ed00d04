#include "store/run_queries.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "store/labels.h"
#include "store/metrics.h"
#include "store/workspaces.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

constexpr int kRunsMax = 1000;  // Of one page of a list.

constexpr std::string_view kSelectRun =
    "SELECT r.id, r.number, r.version, r.user_name, r.workspace_id, r.experiment_id, r.status, "
    "r.attempt, r.lost_early, r.cancel_asked, r.exit_code, r.error, r.created, r.started, r.ended, "
    "r.outputs, r.snapshot_files, r.snapshot_bytes, s.spec, w.subscription_id, w.resource_group, "
    "r.retries, r.archived, p.id, l.display_name, l.description, l.tags, l.properties, r.held "
    "FROM runs r JOIN run_specs s ON s.run = r.number JOIN workspaces w ON w.id = r.workspace_id "
    "LEFT JOIN runs p ON p.number = r.parent LEFT JOIN run_labels l ON l.run = r.number ";

Result<Run> read_run(const db::Statement& row) {
  Run run;
  run.id = RunId{row.text(0)};
  run.number = row.integer(1);
  run.version = row.integer(2);
  run.user = row.text(3);
  run.workspace_id = std::to_string(row.integer(4));
  run.experiment_id = std::to_string(row.integer(5));
  TRY_SET(run.life.status, run_status_from(row.text(6)));
  run.life.attempt = static_cast<int>(row.integer(7));
  run.life.lost_early = static_cast<int>(row.integer(8));
  run.life.cancel_asked = row.integer(9) != 0;
  if (!row.is_null(10)) run.life.exit_code = static_cast<int>(row.integer(10));
  run.life.error = row.text(11);
  run.created = row.time(12);
  run.started = row.maybe_time(13);
  run.ended = row.maybe_time(14);
  run.outputs = row.text(15);
  run.snapshot_files = row.integer(16);
  run.snapshot_bytes = row.integer(17);
  TRY_SET(const wire::Json spec, wire::parse(row.text(18)));
  TRY_SET(run.spec, wire::decode_run_spec(spec));
  run.subscription_id = row.text(19);
  run.resource_group = row.text(20);
  run.life.retries = static_cast<int>(row.integer(21));
  run.life.retry = run.spec.retry;
  run.life.interactive = run.spec.interactive;
  run.parent = row.text(23);
  if (row.is_null(24)) {
    run.labels = labels_of(run.spec);
  } else {
    TRY_SET(run.labels, read_labels(row, 24));
  }
  run.labels.archived = row.integer(22) != 0;
  run.held = row.text(28);
  run.parameters = run.spec.parameters;
  return run;
}

Result<std::vector<Attempt>> attempts_of(db::Db& db, int64_t run) {
  std::vector<Attempt> attempts;
  TRY_SET(db::Statement rows,
          db.query("SELECT number, node, placed, started, ended, cpu_seconds, memory_bytes, "
                   "memory_peak_bytes, outcome, gpus FROM attempts WHERE run = ? ORDER BY number",
                   {run}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return attempts;
    TRY_SET(Attempt attempt, read_attempt(rows));
    attempts.push_back(std::move(attempt));
  }
}

Result<std::vector<RunEventRecord>> events_of(db::Db& db, int64_t run) {
  std::vector<RunEventRecord> events;
  TRY_SET(db::Statement rows,
          db.query("SELECT seq, at, attempt, kind, text FROM events WHERE run = ? ORDER BY seq",
                   {run}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return events;
    events.push_back({rows.integer(0), rows.time(1), static_cast<int>(rows.integer(2)),
                      rows.text(3), rows.text(4)});
  }
}

// The filter as SQL. Numbers are written into it, so that the planner sees which index fits; text
// stays a question mark.
struct Where {
  std::string sql;
  bool nothing = false;  // No run can be in it.
};

Result<Where> where_of(db::Db& db, const RunFilter& filter) {
  Where where;
  std::optional<int64_t> workspace;
  if (!filter.workspace.empty()) {
    TRY_SET(const Workspace found, load_workspace(db, filter.workspace));
    workspace = found.id;
  }
  if (!filter.experiment.empty()) {
    const std::string in_workspace =
        workspace ? " AND workspace_id = " + std::to_string(*workspace) : std::string();
    TRY_SET(db::Statement rows, db.query("SELECT id FROM experiments WHERE name = ?" + in_workspace,
                                         {filter.experiment}));
    std::string ids;
    while (true) {
      TRY_SET(const bool more, rows.next());
      if (!more) break;
      ids += (ids.empty() ? "" : ", ") + std::to_string(rows.integer(0));
    }
    where.nothing = ids.empty();
    where.sql += " AND r.experiment_id IN (" + ids + ")";
  } else if (workspace) {
    where.sql += " AND r.workspace_id = " + std::to_string(*workspace);
  }
  if (!filter.closed.empty()) {
    std::string ids;
    for (const int64_t id : filter.closed) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    where.sql += " AND r.workspace_id NOT IN (" + ids + ")";
  }
  if (filter.parent > 0) {
    where.sql += " AND r.parent = " + std::to_string(filter.parent);
  } else if (!filter.children) {
    where.sql += " AND r.parent IS NULL";
  }
  if (filter.archived != RunFilter::Archived::any) {
    where.sql += filter.archived == RunFilter::Archived::only ? " AND r.archived = 1"
                                                              : " AND r.archived = 0";
  }
  if (!filter.status.empty()) {
    TRY_SET(const RunStatus status, run_status_from(filter.status));
    where.sql += std::string(" AND r.final = ") + (is_final(status) ? "1" : "0") +
                 " AND r.status = '" + std::string(to_string(status)) + "'";
  }
  return where;
}

// Tags as they are now: of the row, else of the spec. A value compares as text.
std::string tag_condition(const RunFilter& filter) {
  if (filter.tag.empty()) return {};
  return " AND EXISTS (SELECT 1 FROM json_each(COALESCE(l.tags, json_extract(s.spec, '$.tags'))) t "
         "WHERE t.key = ? AND (? = '' OR t.value = ?))";
}

int limit_of(const RunFilter& filter) { return std::clamp(filter.limit, 1, kRunsMax); }

constexpr std::string_view kAmongTheNewest =
    " AND r.number > (SELECT MAX(number) FROM runs) - 5000";

// The newest that `where` leaves.
Result<std::vector<Run>> page_of(db::Db& db, const RunFilter& filter, const std::string& where) {
  const int64_t before = filter.before > 0 ? filter.before : std::numeric_limits<int64_t>::max();
  // Their numbers first: where they must be sorted, that is all there is to carry.
  const std::string joined = filter.tag.empty() ? std::string()
                                                : " JOIN run_specs s ON s.run = r.number"
                                                  " LEFT JOIN run_labels l ON l.run = r.number";
  const std::string numbers = "SELECT r.number FROM runs r" + joined + " WHERE r.number < ?" +
                              where + " AND (? = '' OR r.target = ?)" + tag_condition(filter) +
                              " ORDER BY r.number DESC LIMIT ?";
  const std::string sql =
      std::string(kSelectRun) + "WHERE r.number IN (" + numbers + ") ORDER BY r.number DESC";
  const int limit = limit_of(filter);
  TRY_SET(db::Statement rows, filter.tag.empty()
                                  ? db.query(sql, {before, filter.target, filter.target, limit})
                                  : db.query(sql, {before, filter.target, filter.target, filter.tag,
                                                   filter.tag_value, filter.tag_value, limit}));
  std::vector<Run> runs;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return runs;
    TRY_SET(Run run, read_run(rows));
    runs.push_back(std::move(run));
  }
}

}  // namespace

Result<Run> load_run(db::Db& db, const RunId& id, Detail detail) {
  static const std::string kSql = std::string(kSelectRun) + "WHERE r.id = ?";
  Run run;
  {
    TRY_SET(db::Statement row, db.query(kSql, {id.value}));
    TRY_SET(const bool any, row.next());
    if (!any) return no_such_run(id.value);
    TRY_SET(run, read_run(row));
  }
  if (detail == Detail::whole) {
    TRY_SET(run.attempts, attempts_of(db, run.number));
    TRY_SET(run.events, events_of(db, run.number));
    TRY(add_metrics(db, {&run, 1}));
  }
  return run;
}

Result<RunId> find_run_id(db::Db& db, std::string_view beginning) {
  if (beginning.empty()) return fail(ErrorKind::invalid, "a run's id is empty");
  // Ids are ASCII: this byte is behind all of them.
  const std::string behind = std::string(beginning) + "\xff";
  TRY_SET(db::Statement rows,
          db.query("SELECT id FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT 4",
                   {beginning, behind}));
  std::vector<std::string> found;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) break;
    found.push_back(rows.text(0));
  }
  if (found.empty()) return no_such_run(beginning);
  if (found.size() == 1 || found.front() == beginning) return RunId{found.front()};
  const std::string more = found.size() > 3 ? ", …" : "";
  found.resize(std::min<size_t>(found.size(), 3));
  return fail(
      ErrorKind::conflict,
      "several runs begin with '" + std::string(beginning) + "': " + join(found, ", ") + more,
      "Give more of the id.");
}

Result<std::vector<Run>> list_runs(db::Db& db, const RunFilter& filter) {
  std::vector<Run> runs;
  TRY_SET(const Where where, where_of(db, filter));
  if (where.nothing) return runs;
  // A queue may be very long, and its index has another order. Mostly the page is among those who
  // came last, and the index alone tells who did.
  if (filter.status == to_string(RunStatus::queued) && filter.before == 0) {
    TRY_SET(runs, page_of(db, filter, where.sql + std::string(kAmongTheNewest)));
  }
  if (runs.size() < static_cast<size_t>(limit_of(filter))) {
    TRY_SET(runs, page_of(db, filter, where.sql));
  }
  TRY(add_metrics(db, runs));
  return runs;
}

Result<int64_t> count_runs_in(db::Db& db, RunStatus status) {
  TRY_SET(db::Statement row,
          db.query(is_final(status) ? "SELECT COUNT(*) FROM runs WHERE final = 1 AND status = ?"
                                    : "SELECT COUNT(*) FROM runs WHERE final = 0 AND status = ?",
                   {to_string(status)}));
  TRY_SET(const bool any, row.next());
  return any ? row.integer(0) : 0;
}

// Every change of a run is an event, and its last is on its row. Of those that are over the latest
// end is the newest; those that are not over are few. So this reads no history.
Result<WallTime> newest_time_in(db::Db& db) {
  TRY_SET(db::Statement row,
          db.query("SELECT MAX(COALESCE((SELECT MAX(ended) FROM runs WHERE final = 1), 0),"
                   "           COALESCE((SELECT MAX(event_at) FROM runs WHERE final = 0), 0),"
                   "           COALESCE((SELECT MAX(created) FROM workspaces), 0),"
                   "           COALESCE((SELECT MAX(created) FROM users), 0))"));
  TRY_SET(const bool any, row.next());
  return any ? row.time(0) : WallTime{};
}

Result<Attempt> read_attempt(const db::Statement& row) {
  Attempt attempt;
  attempt.number = static_cast<int>(row.integer(0));
  attempt.node = row.text(1);
  attempt.placed = row.time(2);
  attempt.started = row.maybe_time(3);
  attempt.ended = row.maybe_time(4);
  attempt.cpu_seconds = row.real(5);
  attempt.memory_bytes = row.integer(6);
  attempt.memory_peak_bytes = row.integer(7);
  for (const std::string& gpu : split(row.text(9), ',')) {
    if (gpu.empty()) continue;
    TRY_SET(const int64_t number, parse_int(gpu, "gpu"));
    attempt.gpus.push_back(static_cast<int>(number));
  }
  const std::string end = row.text(8);
  if (!end.empty()) {
    TRY_SET(const wire::Json json, wire::parse(end));
    TRY_SET(attempt.end, wire::decode_attempt_end(json));
  }
  return attempt;
}

std::unexpected<Error> no_such_run(std::string_view id) {
  return fail(ErrorKind::not_found, "run '" + std::string(id) + "' does not exist",
              "List the runs with: trainyard run list");
}

}  // namespace trainyard::store
