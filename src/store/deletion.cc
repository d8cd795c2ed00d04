#include "store/deletion.h"

#include "store/run_queries.h"
#include "store/run_rows.h"
#include "store/workspaces.h"

namespace trainyard::store {
namespace {

constexpr int kPurgeRows = 1000;

// A run and all below it.
constexpr std::string_view kFamily =
    "WITH RECURSIVE family (number) AS (SELECT ? UNION "
    "SELECT r.number FROM runs r JOIN family f ON r.parent = f.number) ";

Result<std::vector<RunId>> read_ids(db::Statement rows) {
  std::vector<RunId> ids;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return ids;
    ids.push_back(RunId{rows.text(0)});
  }
}

std::unexpected<Error> not_over(const RunId& asked, const std::string& live) {
  const std::string what = live == asked.value ? "run " + live : "run " + live + " below it";
  return fail(ErrorKind::conflict, what + " is not over",
              "Cancel it first with: trainyard run cancel " + live);
}

}  // namespace

Result<std::vector<RunId>> delete_run(db::Transaction& transaction, const RunId& id,
                                      WallTime when) {
  TRY_SET(const RunHead head, run_head(transaction.db(), id));
  {
    TRY_SET(db::Statement live,
            transaction.query(std::string(kFamily) +
                                  "SELECT r.id FROM runs r JOIN family f ON r.number = f.number "
                                  "WHERE r.final = 0 ORDER BY r.number LIMIT 1",
                              {head.number}));
    TRY_SET(const bool any, live.next());
    if (any) return not_over(id, live.text(0));
  }
  // What was deleted before goes for good too, where this does.
  TRY_SET(db::Statement rows,
          transaction.query(std::string(kFamily) +
                                "UPDATE runs SET deleted = ? WHERE number IN (SELECT number FROM "
                                "family) AND (deleted IS NULL OR deleted > ?) RETURNING id",
                            {head.number, when, when}));
  return read_ids(std::move(rows));
}

Result<int64_t> count_deletable(db::Db& db, const RunId& id) {
  TRY_SET(const std::optional<RunHead> head, find_run_head(db, id));
  if (!head) return 0;
  TRY_SET(db::Statement row,
          db.query(std::string(kFamily) +
                       "SELECT iif(SUM(r.final = 0) > 0, 0, SUM(r.deleted IS NULL)) FROM runs r "
                       "JOIN family f ON r.number = f.number",
                   {head->number}));
  TRY_SET(const bool any, row.next());
  return any ? row.integer(0) : 0;
}

Result<std::vector<RunId>> restore_run(db::Transaction& transaction, const RunId& id) {
  std::optional<WallTime> deleted;
  int64_t number = 0;
  int64_t experiment = 0;
  {
    TRY_SET(db::Statement row,
            transaction.query("SELECT r.number, r.deleted, r.experiment_id, p.deleted, p.id FROM "
                              "runs r LEFT JOIN runs p ON p.number = r.parent WHERE r.id = ?",
                              {id.value}));
    TRY_SET(const bool any, row.next());
    if (!any) return no_such_run(id.value);
    number = row.integer(0);
    deleted = row.maybe_time(1);
    experiment = row.integer(2);
    if (deleted && !row.is_null(3)) {
      return fail(ErrorKind::conflict, "run " + id.value + " is below one that is deleted too",
                  "Restore that one, with all below it: trainyard run restore " + row.text(4));
    }
  }
  if (!deleted) return std::vector<RunId>();
  if (*deleted == kDeletedForGood) {
    return fail(ErrorKind::not_found, "run " + id.value + " was deleted for good");
  }
  TRY(show_experiment(transaction, experiment));
  TRY(stop_deleting(transaction, experiment));  // What is left to delete would take it again.
  TRY_SET(db::Statement rows,
          transaction.query(std::string(kFamily) +
                                "UPDATE runs SET deleted = NULL WHERE number IN (SELECT number "
                                "FROM family) AND deleted = ? RETURNING id",
                            {number, *deleted}));
  return read_ids(std::move(rows));
}

Result<std::optional<DeletedRun>> find_deleted_run(db::Db& db, std::string_view beginning) {
  if (beginning.empty()) return std::optional<DeletedRun>();
  const std::string behind = std::string(beginning) + "\xff";
  TRY_SET(db::Statement rows,
          db.query("SELECT r.id, r.user_name, w.name, r.deleted FROM runs r JOIN workspaces w ON "
                   "w.id = r.workspace_id WHERE r.id >= ? AND r.id < ? AND r.deleted IS NOT NULL "
                   "AND w.deleted IS NULL ORDER BY r.id LIMIT 2",
                   {beginning, behind}));
  TRY_SET(const bool any, rows.next());
  if (!any) return std::optional<DeletedRun>();
  DeletedRun found{RunId{rows.text(0)}, rows.text(1), rows.text(2), rows.time(3)};
  TRY_SET(const bool several, rows.next());
  if (several && found.id.value != beginning) return std::optional<DeletedRun>();
  return std::optional(std::move(found));
}

std::unexpected<Error> no_such_run_now(db::Db& db, std::string_view id) {
  const Result<std::optional<DeletedRun>> deleted = find_deleted_run(db, id);
  if (!deleted || !*deleted) return no_such_run(id);
  const DeletedRun& run = **deleted;
  if (run.deleted == kDeletedForGood) {
    return fail(ErrorKind::not_found, "run " + run.id.value + " was deleted for good");
  }
  return fail(ErrorKind::not_found, "run " + run.id.value + " was deleted",
              "Until " + format_time(run.deleted + kKeepDeleted) +
                  " it can be restored with: trainyard run restore " + run.id.value);
}

Result<ExperimentRow> find_experiment(db::Db& db, std::string_view workspace,
                                      std::string_view name) {
  TRY_SET(const Workspace in, load_workspace(db, workspace));
  TRY_SET(db::Statement row,
          db.query("SELECT id, deleted FROM experiments WHERE workspace_id = ? AND name = ?",
                   {in.id, name}));
  TRY_SET(const bool any, row.next());
  if (any) return ExperimentRow{row.integer(0), row.maybe_time(1)};
  return fail(ErrorKind::not_found, "experiment '" + std::string(name) + "' does not exist",
              "They are listed by: trainyard experiment list");
}

Status check_over(db::Db& db, const ExperimentRow& experiment) {
  TRY_SET(db::Statement live,
          db.query("SELECT id FROM runs WHERE experiment_id = ? AND outcome = '' LIMIT 1",
                   {experiment.id}));
  TRY_SET(const bool any, live.next());
  if (!any) return {};
  return fail(ErrorKind::conflict, "run " + live.text(0) + " of it is not over",
              "Cancel it first with: trainyard run cancel " + live.text(0));
}

Status check_owner(db::Db& db, const ExperimentRow& experiment, std::string_view owner) {
  if (owner.empty()) return {};
  TRY_SET(db::Statement others,
          db.query("SELECT user_name FROM runs WHERE experiment_id = ? AND user_name <> ? LIMIT 1",
                   {experiment.id, owner}));
  TRY_SET(const bool any, others.next());
  if (!any) return {};
  return fail(ErrorKind::denied, "runs of it are " + others.text(0) +
                                     "'s; only an admin deletes or restores other people's runs");
}

Status hide_experiment(db::Transaction& transaction, int64_t experiment, WallTime when) {
  TRY(
      transaction.run("UPDATE experiments SET deleted = ?1, deleting_when = ?1, deleting_through = "
                      "(SELECT COALESCE(MAX(number), 0) FROM runs) WHERE id = ?2",
                      {when, experiment}));
  return {};
}

Result<std::vector<RunId>> delete_experiment_runs(db::Transaction& transaction, int64_t experiment,
                                                  int limit) {
  std::vector<RunId> ids;
  WallTime when{};
  int64_t through = 0;
  {
    TRY_SET(db::Statement row,
            transaction.query("SELECT deleting_when, deleting_through FROM experiments WHERE id = "
                              "? AND deleting_when IS NOT NULL",
                              {experiment}));
    TRY_SET(const bool any, row.next());
    if (!any) return ids;  // Done, or restored meanwhile.
    when = row.time(0);
    through = row.integer(1);
  }
  {
    TRY_SET(db::Statement shown,
            transaction.query("UPDATE runs SET deleted = ? WHERE number IN (SELECT number FROM "
                              "runs INDEXED BY runs_of_experiment WHERE experiment_id = ? AND "
                              "outcome IN ('Completed', 'Failed', 'Canceled') AND shelf < 4 AND "
                              "number <= ? LIMIT ?) RETURNING id",
                              {when, experiment, through, limit}));
    TRY_SET(ids, read_ids(std::move(shown)));
    if (!ids.empty()) return ids;
  }
  {
    // Those that were deleted before and are to go sooner now.
    TRY_SET(db::Statement hidden,
            transaction.query("UPDATE runs SET deleted = ? WHERE number IN (SELECT number FROM "
                              "runs INDEXED BY runs_deleted_of_experiment WHERE experiment_id = ? "
                              "AND deleted > ? AND number <= ? LIMIT ?) RETURNING id",
                              {when, experiment, when, through, limit}));
    TRY_SET(ids, read_ids(std::move(hidden)));
    if (!ids.empty()) return ids;
  }
  TRY(stop_deleting(transaction, experiment));
  return ids;
}

Result<std::vector<int64_t>> unfinished_experiments(db::Db& db) {
  TRY_SET(db::Statement rows,
          db.query("SELECT id FROM experiments WHERE deleting_when IS NOT NULL"));
  std::vector<int64_t> experiments;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return experiments;
    experiments.push_back(rows.integer(0));
  }
}

Status show_experiment(db::Transaction& transaction, int64_t experiment) {
  TRY(transaction.run("UPDATE experiments SET deleted = NULL WHERE id = ? AND deleted IS NOT NULL",
                      {experiment}));
  return {};
}

Status stop_deleting(db::Transaction& transaction, int64_t experiment) {
  TRY(
      transaction.run("UPDATE experiments SET deleting_when = NULL, deleting_through = NULL WHERE "
                      "id = ?",
                      {experiment}));
  return {};
}

Result<std::vector<RunId>> restore_experiment_runs(db::Transaction& transaction, int64_t experiment,
                                                   std::optional<WallTime> when, int limit) {
  TRY_SET(db::Statement rows,
          transaction.query("UPDATE runs SET deleted = NULL WHERE number IN (SELECT number FROM "
                            "runs WHERE experiment_id = ? AND deleted IS NOT NULL AND deleted > ? "
                            "AND deleted = COALESCE(?, deleted) LIMIT ?) RETURNING id",
                            {experiment, kDeletedForGood, when, limit}));
  return read_ids(std::move(rows));
}

Result<std::vector<EndedRun>> runs_ended_before(db::Db& db, int64_t workspace, WallTime before,
                                                const EndedRun& after, int limit) {
  TRY_SET(db::Statement rows,
          db.query("SELECT number, id, ended FROM runs INDEXED BY runs_ended WHERE final = 1 AND "
                   "parent IS NULL AND deleted IS NULL AND workspace_id = ? AND ended < ? AND "
                   "(ended, number) > (?, ?) ORDER BY ended, number LIMIT ?",
                   {workspace, before, after.ended, after.number, limit}));
  std::vector<EndedRun> runs;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return runs;
    runs.push_back({rows.integer(0), RunId{rows.text(1)}, rows.time(2)});
  }
}

Result<std::vector<PurgedRun>> runs_to_purge(db::Db& db, WallTime before, int64_t below,
                                             int limit) {
  // A child has a higher number than its parent: it goes first, so that no cascade is large.
  TRY_SET(db::Statement rows,
          db.query("SELECT number, id FROM runs INDEXED BY runs_of_shelf WHERE shelf = 4 AND "
                   "number < ? AND deleted < ? ORDER BY number DESC LIMIT ?",
                   {below, before, limit}));
  std::vector<PurgedRun> runs;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return runs;
    runs.push_back({rows.integer(0), RunId{rows.text(1)}});
  }
}

namespace {

// Metrics with their points, at most `left` rows; how many more there may be. Some metrics at a
// time, so that those whose points are gone are not passed over again and again.
Result<int64_t> purge_metrics(db::Transaction& transaction, int64_t run, int64_t left) {
  constexpr int64_t kMetrics = 500;
  while (left > 0) {
    TRY_SET(const int64_t points,
            transaction.run("DELETE FROM points WHERE (metric, number) IN (SELECT p.metric, "
                            "p.number FROM (SELECT id FROM metrics WHERE run = ? LIMIT ?) m JOIN "
                            "points p ON p.metric = m.id LIMIT ?)",
                            {run, kMetrics, left}));
    left -= points;
    if (left <= 0) break;
    TRY_SET(const int64_t metrics,
            transaction.run("DELETE FROM metrics WHERE id IN (SELECT id FROM metrics WHERE run = ? "
                            "LIMIT ?)",
                            {run, kMetrics}));
    if (metrics == 0) break;
    left -= metrics;
  }
  return left;
}

}  // namespace

Result<Purged> purge_run(db::Transaction& transaction, int64_t number, WallTime before) {
  // From the first row on nobody restores it.
  TRY_SET(const int64_t ours,
          transaction.run("UPDATE runs SET deleted = ? WHERE number = ? AND deleted IS NOT NULL "
                          "AND deleted < ? AND NOT EXISTS (SELECT 1 FROM runs c WHERE "
                          "c.parent = ? AND c.deleted IS NULL)",
                          {kDeletedForGood, number, before, number}));
  if (ours == 0) return Purged::kept;
  int64_t left = kPurgeRows;
  TRY_SET(left, purge_metrics(transaction, number, left));
  for (const std::string_view table : {"events", "parameters", "run_files"}) {
    if (left <= 0) return Purged::partly;
    const std::string_view key = table == "events"       ? "seq"
                                 : table == "parameters" ? "name"
                                                         : "number";
    const std::string name(table);
    const std::string column(key);
    TRY_SET(const int64_t gone, transaction.run("DELETE FROM " + name + " WHERE run = ? AND " +
                                                    column + " IN (SELECT " + column + " FROM " +
                                                    name + " WHERE run = ? LIMIT ?)",
                                                {number, number, left}));
    left -= gone;
  }
  if (left <= 0) return Purged::partly;
  TRY(transaction.run("DELETE FROM runs WHERE number = ?", {number}));
  return Purged::whole;
}

Result<int64_t> delete_workspace_runs(db::Transaction& transaction, int limit) {
  TRY_SET(const int64_t shown,
          transaction.run("UPDATE runs SET deleted = ? WHERE number IN (SELECT r.number FROM "
                          "workspaces w CROSS JOIN runs r INDEXED BY runs_of_workspace ON "
                          "r.workspace_id = w.id WHERE w.deleted IS NOT NULL AND r.outcome IN "
                          "('Completed', 'Failed', 'Canceled') AND r.shelf < 4 LIMIT ?)",
                          {kDeletedForGood, limit}));
  if (shown > 0) return shown;
  // Those that were deleted before their workspace, and could be restored until then.
  return transaction.run(
      "UPDATE runs SET deleted = ? WHERE number IN (SELECT r.number FROM runs r INDEXED BY "
      "runs_deleted CROSS JOIN workspaces w ON w.id = r.workspace_id WHERE r.deleted > ? AND "
      "w.deleted IS NOT NULL LIMIT ?)",
      {kDeletedForGood, kDeletedForGood, limit});
}

Result<int64_t> purge_others(db::Transaction& transaction, WallTime before) {
  TRY_SET(const int64_t workspaces,
          transaction.run("DELETE FROM workspaces WHERE deleted IS NOT NULL AND NOT EXISTS "
                          "(SELECT 1 FROM runs r WHERE r.workspace_id = workspaces.id)"));
  TRY_SET(
      const int64_t experiments,
      transaction.run("DELETE FROM experiments WHERE deleted IS NOT NULL AND deleted < ? AND "
                      "NOT EXISTS (SELECT 1 FROM runs r WHERE r.experiment_id = experiments.id)",
                      {before}));
  TRY_SET(const int64_t environments,
          transaction.run("DELETE FROM environments WHERE deleted IS NOT NULL AND deleted < ?",
                          {before}));
  return workspaces + experiments + environments;
}

}  // namespace trainyard::store
