#include "store/run_queries.h"

#include <algorithm>

#include "base/text.h"
#include "store/deletion.h"
#include "store/labels.h"
#include "store/metrics.h"
#include "store/run_list.h"
#include "store/warnings.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

constexpr int kRunsMax = 1000;  // Of one page of a list.

constexpr std::string_view kSelectRun =
    "SELECT r.id, r.number, r.version, r.user_name, r.workspace_id, r.experiment_id, r.status, "
    "r.attempt, r.lost_early, r.cancel_asked, r.exit_code, r.error, r.created, r.started, r.ended, "
    "r.outputs, r.snapshot_files, r.snapshot_bytes, s.spec, w.subscription_id, w.resource_group, "
    "r.retries, r.archived, p.id, l.display_name, l.description, l.tags, l.properties, r.held, "
    "r.deleted "
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
  run.deleted = row.maybe_time(29);
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

}  // namespace

Result<Run> load_run(db::Db& db, const RunId& id, Detail detail) {
  static const std::string kSql =
      std::string(kSelectRun) + "WHERE r.id = ? AND r.deleted IS NULL AND w.deleted IS NULL";
  Run run;
  {
    TRY_SET(db::Statement row, db.query(kSql, {id.value}));
    TRY_SET(const bool any, row.next());
    if (!any) return no_such_run_now(db, id.value);
    TRY_SET(run, read_run(row));
  }
  if (detail == Detail::whole) {
    TRY_SET(run.attempts, attempts_of(db, run.number));
    TRY_SET(run.events, events_of(db, run.number));
    TRY_SET(run.warnings, load_warnings(db, run.number));
    TRY(add_metrics(db, run));
  }
  return run;
}

Result<RunId> find_run_id(db::Db& db, std::string_view beginning) {
  if (beginning.empty()) return fail(ErrorKind::invalid, "a run's id is empty");
  // Ids are ASCII: this byte is behind all of them.
  const std::string behind = std::string(beginning) + "\xff";
  TRY_SET(db::Statement rows,
          db.query("SELECT r.id FROM runs r CROSS JOIN workspaces w ON w.id = r.workspace_id "
                   "WHERE r.id >= ? AND r.id < ? AND r.deleted IS NULL AND w.deleted IS NULL "
                   "ORDER BY r.id LIMIT 4",
                   {beginning, behind}));
  std::vector<std::string> found;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) break;
    found.push_back(rows.text(0));
  }
  if (found.empty()) return no_such_run_now(db, beginning);
  if (found.size() == 1 || found.front() == beginning) return RunId{found.front()};
  const std::string more = found.size() > 3 ? ", …" : "";
  found.resize(std::min<size_t>(found.size(), 3));
  return fail(
      ErrorKind::conflict,
      "several runs begin with '" + std::string(beginning) + "': " + join(found, ", ") + more,
      "Give more of the id.");
}

Result<std::vector<Run>> list_runs(db::Db& db, const RunFilter& filter) {
  static const std::string kSql = std::string(kSelectRun) +
                                  "WHERE r.number IN (SELECT value FROM json_each(?)) "
                                  "ORDER BY r.number DESC";
  std::vector<Run> runs;
  TRY_SET(const std::vector<int64_t> numbers,
          list_run_numbers(db, filter, std::clamp(filter.limit, 1, kRunsMax)));
  if (numbers.empty()) return runs;
  // A list has no question mark of its own; as JSON it is one text, and the statement stays one.
  TRY_SET(db::Statement rows, db.query(kSql, {wire::dump(wire::Json(numbers))}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) break;
    TRY_SET(Run run, read_run(rows));
    runs.push_back(std::move(run));
  }
  for (Run& run : runs) TRY(add_entry_metrics(db, run));
  return runs;
}

Result<int64_t> count_runs_in(db::Db& db, RunStatus status) {
  TRY_SET(db::Statement row,
          db.query(is_final(status) ? "SELECT COUNT(*) FROM runs WHERE outcome = ?"
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
