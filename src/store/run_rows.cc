#include "store/run_rows.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"
#include "store/deletion.h"
#include "store/labels.h"
#include "store/run_queries.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

constexpr std::string_view kHeadById =
    "SELECT number, version, status, attempt, lost_early, cancel_asked, exit_code, error, cpus, "
    "memory_bytes, user_name, spec_hash, created, started, ended, outputs, event_seq, event_at, "
    "workspace_id, experiment_id, gpus, retries, retry, interactive, archived, queue, "
    "nodes, held FROM runs WHERE id = ?";

Result<RunHead> read_head(const db::Statement& row, const RunId& id) {
  RunHead head;
  head.id = id;
  head.number = row.integer(0);
  head.version = row.integer(1);
  TRY_SET(head.life.status, run_status_from(row.text(2)));
  head.life.attempt = static_cast<int>(row.integer(3));
  head.life.lost_early = static_cast<int>(row.integer(4));
  head.life.cancel_asked = row.integer(5) != 0;
  if (!row.is_null(6)) head.life.exit_code = static_cast<int>(row.integer(6));
  head.life.error = row.text(7);
  head.resources.cpus = static_cast<int>(row.integer(8));
  head.resources.memory_bytes = row.integer(9);
  head.user = row.text(10);
  head.spec_hash = row.text(11);
  head.created = row.time(12);
  head.started = row.maybe_time(13);
  head.ended = row.maybe_time(14);
  head.outputs = row.text(15);
  head.event_seq = row.integer(16);
  head.event_at = row.time(17);
  head.workspace_id = row.integer(18);
  head.experiment_id = row.integer(19);
  head.resources.gpus = static_cast<int>(row.integer(20));
  head.life.retries = static_cast<int>(row.integer(21));
  if (const std::string retry = row.text(22); !retry.empty()) {
    TRY_SET(const wire::Json json, wire::parse(retry));
    TRY_SET(head.life.retry, wire::decode_retry(json));
  }
  head.life.interactive = row.integer(23) != 0;
  head.archived = row.integer(24) != 0;
  head.queue = row.text(25);
  head.nodes = static_cast<int>(row.integer(26));
  head.held = row.text(27);
  return head;
}

}  // namespace

Result<std::optional<RunHead>> find_run_head(db::Db& db, const RunId& id) {
  TRY_SET(db::Statement row, db.query(kHeadById, {id.value}));
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<RunHead>();
  TRY_SET(RunHead head, read_head(row, id));
  return std::optional<RunHead>(std::move(head));
}

Result<RunHead> run_head(db::Db& db, const RunId& id) {
  TRY_SET(std::optional<RunHead> head, find_run_head(db, id));
  if (!head) return no_such_run(id.value);
  return *std::move(head);
}

Result<RunHead> insert_run(db::Transaction& transaction, const NewRun& run) {
  RunHead head;
  head.id = run.id;
  head.workspace_id = run.workspace_id;
  head.experiment_id = run.experiment_id;
  head.resources = run.spec.resources;
  head.nodes = run.spec.nodes;
  head.life.retry = run.spec.retry;
  head.life.interactive = run.spec.interactive;
  head.queue = queue_of(run.spec);
  head.held = run.held;
  const std::string retry =
      run.spec.retry.max > 0 ? wire::dump(wire::encode(run.spec.retry)) : std::string();
  head.user = run.user;
  head.spec_hash = run.spec_hash;
  head.created = run.created;
  head.event_at = run.created;
  {
    TRY_SET(
        db::Statement row,
        transaction.query(
            "INSERT INTO runs (id, version, workspace_id, experiment_id, user_name, target, cpus, "
            "memory_bytes, status, final, attempt, lost_early, cancel_asked, error, event_seq, "
            "event_at, created, outputs, snapshot_files, snapshot_bytes, spec_hash, priority, "
            "gpus, retry, interactive, parent, queue, nodes, held) VALUES (?, 0, ?, ?, ?, ?, ?, ?, "
            "?, 0, 0, 0, 0, '', 0, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "RETURNING number",
            {run.id.value,
             run.workspace_id,
             run.experiment_id,
             run.user,
             run.spec.target,
             run.spec.resources.cpus,
             run.spec.resources.memory_bytes,
             to_string(head.life.status),
             run.created,
             run.created,
             run.snapshot_files,
             run.snapshot_bytes,
             run.spec_hash,
             static_cast<int>(run.spec.priority),
             run.spec.resources.gpus,
             retry,
             run.spec.interactive ? 1 : 0,
             run.parent,
             head.queue,
             head.nodes,
             head.held}));
    TRY_SET(const bool any, row.next());
    ENSURE(any);
    head.number = row.integer(0);
  }
  TRY(transaction.run("INSERT INTO run_specs (run, spec) VALUES (?, ?)",
                      {head.number, run.spec_json}));
  TRY(save_tags(transaction, head.number, run.spec.tags));
  return head;
}

// Only the end of a run sets `outcome`: naming the column in every change would rewrite the run's
// entries in all indexes of lists.
constexpr std::string_view kSaveOpen =
    "UPDATE runs SET version = version + 1, status = ?, attempt = ?, lost_early = ?, "
    "cancel_asked = ?, exit_code = ?, error = ?, event_seq = ?, event_at = ?, started = ?, "
    "ended = ?, outputs = ?, retries = ?, held = ? WHERE number = ? AND version = ?";
constexpr std::string_view kSaveFinal =
    "UPDATE runs SET version = version + 1, status = ?1, attempt = ?2, lost_early = ?3, "
    "cancel_asked = ?4, exit_code = ?5, error = ?6, event_seq = ?7, event_at = ?8, started = ?9, "
    "ended = ?10, outputs = ?11, retries = ?12, held = ?13, final = 1, outcome = ?1 "
    "WHERE number = ?14 AND version = ?15";

Status save_run(db::Transaction& transaction, RunHead& head) {
  TRY_SET(const int64_t changed,
          transaction.run(is_final(head.life.status) ? kSaveFinal : kSaveOpen,
                          {to_string(head.life.status), head.life.attempt, head.life.lost_early,
                           head.life.cancel_asked ? 1 : 0, head.life.exit_code, head.life.error,
                           head.event_seq, head.event_at, head.started, head.ended, head.outputs,
                           head.life.retries, head.held, head.number, head.version}));
  if (changed != 1) {
    return fail(ErrorKind::conflict, "run " + head.id.value + " was changed meanwhile");
  }
  ++head.version;
  return {};
}

Status save_archived(db::Transaction& transaction, RunHead& head, bool archived) {
  head.archived = archived;
  TRY(transaction.run("UPDATE runs SET archived = ? WHERE number = ?",
                      {archived ? 1 : 0, head.number}));
  return {};
}

Status add_event(db::Transaction& transaction, RunHead& head, const RunEventRecord& event) {
  ++head.event_seq;
  head.event_at = std::max(head.event_at, event.at);
  TRY(transaction.run(
      "INSERT INTO events (run, seq, at, attempt, kind, text) VALUES (?, ?, ?, ?, ?, ?)",
      {head.number, head.event_seq, head.event_at, event.attempt, event.kind, event.text}));
  return {};
}

Result<std::vector<QueuedRun>> queue_front(db::Db& db, std::string_view queue, int limit,
                                           Wanting wanting) {
  constexpr int kAny = INT32_MAX;
  std::vector<QueuedRun> queued;
  TRY_SET(
      db::Statement rows,
      db.query("SELECT id, number, cpus, memory_bytes, gpus, nodes FROM runs WHERE final = 0 AND "
               "status = 'Queued' AND queue = ? AND held = '' AND gpus <= ? "
               "ORDER BY priority DESC, number LIMIT ?",
               {queue, wanting == Wanting::anything ? kAny : 0, limit}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return queued;
    queued.push_back({RunId{rows.text(0)},
                      rows.integer(1),
                      {.cpus = static_cast<int>(rows.integer(2)),
                       .memory_bytes = rows.integer(3),
                       .gpus = static_cast<int>(rows.integer(4))},
                      static_cast<int>(rows.integer(5))});
  }
}

Result<int64_t> count_queued_before(db::Db& db, std::string_view queue, Priority priority,
                                    int64_t number) {
  const int rank = static_cast<int>(priority);
  // Two ranges of one index.
  TRY_SET(db::Statement row,
          db.query("SELECT (SELECT COUNT(*) FROM runs WHERE final = 0 AND status = 'Queued' AND "
                   "queue = ? AND held = '' AND priority > ?) + (SELECT COUNT(*) FROM runs WHERE "
                   "final = 0 AND status = 'Queued' AND queue = ? AND held = '' AND priority = ? "
                   "AND number < ?)",
                   {queue, rank, queue, rank, number}));
  TRY_SET(const bool any, row.next());
  return any ? row.integer(0) : 0;
}

Result<int64_t> count_queued_between(db::Db& db, std::string_view queue, Priority priority,
                                     int64_t after, int64_t before) {
  TRY_SET(db::Statement row,
          db.query("SELECT COUNT(*) FROM runs WHERE final = 0 AND status = 'Queued' AND "
                   "queue = ? AND held = '' AND priority = ? AND number > ? AND number < ?",
                   {queue, static_cast<int>(priority), after, before}));
  TRY_SET(const bool any, row.next());
  return any ? row.integer(0) : 0;
}

Result<std::map<std::string, QueueLength>> count_queued(db::Db& db) {
  std::map<std::string, QueueLength> counts;
  TRY_SET(db::Statement rows,
          db.query("SELECT queue, COUNT(*), SUM(held <> '') FROM runs WHERE final = 0 AND "
                   "status = 'Queued' GROUP BY queue"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return counts;
    counts[rows.text(0)] = {rows.integer(1), rows.integer(2)};
  }
}

Result<bool> environment_is_awaited(db::Db& db, std::string_view hash) {
  TRY_SET(db::Statement rows,
          db.query("SELECT 1 FROM runs r JOIN run_specs s ON s.run = r.number WHERE r.final = 0 "
                   "AND r.status IN ('NotStarted', 'Queued', 'Provisioning', 'Preparing') "
                   "AND json_extract(s.spec, '$.environment.hash') = ? LIMIT 1",
                   {hash}));
  return rows.next();
}

Result<std::vector<HeldRun>> held_runs(db::Db& db) {
  std::vector<HeldRun> runs;
  TRY_SET(db::Statement rows,
          db.query("SELECT id, held FROM runs WHERE held <> '' ORDER BY held, number"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return runs;
    runs.push_back({RunId{rows.text(0)}, rows.text(1)});
  }
}

Result<std::vector<RunId>> live_runs(db::Db& db) {
  std::vector<RunId> ids;
  // Named one by one: of "all but Queued" SQLite would make a scan of the whole history.
  TRY_SET(db::Statement rows,
          db.query("SELECT id FROM runs WHERE final = 0 AND status IN ('NotStarted', "
                   "'Provisioning', 'Preparing', 'Starting', 'Running', 'Finalizing', "
                   "'CancelRequested') AND interactive = 0 ORDER BY number"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return ids;
    ids.push_back(RunId{rows.text(0)});
  }
}

Result<std::vector<RunId>> open_children(db::Db& db, int64_t run) {
  std::vector<RunId> ids;
  TRY_SET(db::Statement rows, db.query("SELECT id FROM runs WHERE parent = ? AND outcome = '' AND "
                                       "interactive = 1 ORDER BY number",
                                       {run}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return ids;
    ids.push_back(RunId{rows.text(0)});
  }
}

Result<int64_t> get_or_create_experiment(db::Transaction& transaction, int64_t workspace,
                                         std::string_view name, WallTime now) {
  {
    TRY_SET(db::Statement found,
            transaction.query("SELECT id, deleted FROM experiments WHERE workspace_id = ? AND "
                              "name = ?",
                              {workspace, name}));
    TRY_SET(const bool any, found.next());
    if (any) {
      const int64_t id = found.integer(0);
      // A run in a deleted experiment brings it back, without its deleted runs.
      if (!found.is_null(1)) TRY(show_experiment(transaction, id));
      return id;
    }
  }
  TRY_SET(db::Statement made, transaction.query("INSERT INTO experiments (workspace_id, name, "
                                                "created) VALUES (?, ?, ?) RETURNING id",
                                                {workspace, name, now}));
  TRY_SET(const bool any, made.next());
  ENSURE(any);
  return made.integer(0);
}

Result<std::optional<KnownSnapshot>> known_snapshot(db::Db& db, std::string_view tree) {
  TRY_SET(db::Statement row, db.query("SELECT files, bytes FROM snapshots WHERE tree = ?", {tree}));
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<KnownSnapshot>();
  return std::optional<KnownSnapshot>({row.integer(0), row.integer(1)});
}

Status remember_snapshot(db::Transaction& transaction, std::string_view tree,
                         const KnownSnapshot& snapshot, WallTime now) {
  TRY(
      transaction.run("INSERT INTO snapshots (tree, files, bytes, verified) VALUES (?, ?, ?, ?) "
                      "ON CONFLICT (tree) DO UPDATE SET verified = excluded.verified "
                      "WHERE verified < excluded.verified - 3600000000",
                      {tree, snapshot.files, snapshot.bytes, now}));
  return {};
}

Status remember_tree(db::Transaction& transaction, int64_t workspace, std::string_view tree) {
  TRY(
      transaction.run("INSERT INTO workspace_trees (tree, workspace_id) VALUES (?, ?) "
                      "ON CONFLICT DO NOTHING",
                      {tree, workspace}));
  return {};
}

}  // namespace trainyard::store
