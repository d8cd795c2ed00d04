#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "db/db.h"

// Deletion hides a run, an experiment or an environment at once. Its rows stay, and it can be
// restored, until garbage collection purges it.
namespace trainyard::store {

// How long what was deleted can be restored.
inline constexpr std::chrono::hours kKeepDeleted{7 * 24};
// In place of a time: collection purges it next, and nobody restores it any more.
inline constexpr WallTime kDeletedForGood{microseconds(1)};

// ---- runs ----

// Hides a run and all below it; their ids. conflict: one of them is not over.
Result<std::vector<RunId>> delete_run(db::Transaction& transaction, const RunId& id, WallTime when);
// How many runs that would hide; 0: one of them is not over.
Result<int64_t> count_deletable(db::Db& db, const RunId& id);
// Brings a run back, and what was deleted with it. conflict: its parent is deleted.
Result<std::vector<RunId>> restore_run(db::Transaction& transaction, const RunId& id);

struct DeletedRun {
  RunId id;
  std::string user;
  std::string workspace;
  WallTime deleted{};
};
// The deleted run that `beginning` begins; nothing where there is none, or several.
Result<std::optional<DeletedRun>> find_deleted_run(db::Db& db, std::string_view beginning);
// not_found, with how to restore it where it was deleted.
std::unexpected<Error> no_such_run_now(db::Db& db, std::string_view id);

// ---- experiments ----

struct ExperimentRow {
  int64_t id = 0;
  std::optional<WallTime> deleted;
};
// not_found
Result<ExperimentRow> find_experiment(db::Db& db, std::string_view workspace,
                                      std::string_view name);
// conflict: one of its runs is not over.
Status check_over(db::Db& db, const ExperimentRow& experiment);
// denied: `owner` is given and a run is another's.
Status check_owner(db::Db& db, const ExperimentRow& experiment, std::string_view owner);
// Hides the experiment. Its runs are then deleted by batches, so that 100,000 hold nobody up: the
// runs of a batch, none when all are deleted.
Status hide_experiment(db::Transaction& transaction, int64_t experiment, WallTime when);
Result<std::vector<RunId>> delete_experiment_runs(db::Transaction& transaction, int64_t experiment,
                                                  int limit);
// Shows the experiment again, and ends a deletion of its runs that is under way. Then the runs that
// were deleted at `when`, or at any time, are restored by batches.
Status show_experiment(db::Transaction& transaction, int64_t experiment);
Status stop_deleting(db::Transaction& transaction, int64_t experiment);
Result<std::vector<RunId>> restore_experiment_runs(db::Transaction& transaction, int64_t experiment,
                                                   std::optional<WallTime> when, int limit);

// ---- for garbage collection ----

// Experiments with runs left to delete: the server was killed between two batches.
Result<std::vector<int64_t>> unfinished_experiments(db::Db& db);
struct EndedRun {
  int64_t number = 0;
  RunId id;
  WallTime ended{};
};
// Runs of a workspace that ended before a time, are no child and not deleted: the oldest first,
// those behind `after`.
Result<std::vector<EndedRun>> runs_ended_before(db::Db& db, int64_t workspace, WallTime before,
                                                const EndedRun& after, int limit);
struct PurgedRun {
  int64_t number = 0;
  RunId id;
};
// Deleted before this time, with a number below `below`: the highest first.
Result<std::vector<PurgedRun>> runs_to_purge(db::Db& db, WallTime before, int64_t below, int limit);
enum class Purged {
  kept,    // It was restored meanwhile.
  partly,  // About a thousand rows are gone; again.
  whole,
};
// Removes rows of a run that was deleted before this time.
Result<Purged> purge_run(db::Transaction& transaction, int64_t number, WallTime before);
// Takes up to `limit` runs of deleted workspaces for purge_run(); how many there were.
Result<int64_t> delete_workspace_runs(db::Transaction& transaction, int limit);
// Deleted workspaces without a run; experiments without a run and environments that were deleted
// before this time. How many.
Result<int64_t> purge_others(db::Transaction& transaction, WallTime before);

}  // namespace trainyard::store
