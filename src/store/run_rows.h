#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/db.h"
#include "model/run.h"

// The rows of a run, for changes handed to Store::write(): small functions over a transaction.
namespace trainyard::store {

// What decides about a run, without its spec.
struct RunHead {
  int64_t number = 0;
  RunId id;
  int64_t workspace_id = 0;
  int64_t experiment_id = 0;
  int64_t version = 0;
  RunLife life;
  Resources resources;
  int nodes = 1;
  bool archived = false;
  std::string queue;  // queue_of() its spec.
  std::string held;   // Run::held.
  std::string user;
  std::string spec_hash;
  WallTime created{};
  std::optional<WallTime> started;
  std::optional<WallTime> ended;
  std::string outputs;
  int64_t event_seq = 0;  // The last event's number and time.
  WallTime event_at{};
};

struct NewRun {
  RunId id;
  int64_t workspace_id = 0;
  int64_t experiment_id = 0;
  const RunSpec& spec;
  std::string_view spec_json;
  std::string_view spec_hash;
  std::string_view user;
  WallTime created{};
  int64_t snapshot_files = 0;
  int64_t snapshot_bytes = 0;
  std::optional<int64_t> parent;  // A run's number.
  std::string_view held = {};     // Run::held.
};

// ---- runs ----
// not_found
Result<RunHead> run_head(db::Db& db, const RunId& id);
Result<std::optional<RunHead>> find_run_head(db::Db& db, const RunId& id);
// In status NotStarted, without an event; the caller takes it on from there.
Result<RunHead> insert_run(db::Transaction& transaction, const NewRun& run);
// Keeps what changed, but for `archived`, and raises the version; conflict when another change came
// between.
Status save_run(db::Transaction& transaction, RunHead& head);
// Apart from save_run(), because it moves the run in the indexes of lists. save_run() must follow.
Status save_archived(db::Transaction& transaction, RunHead& head, bool archived);
// The next of the run's events, in `head` too: save_run() must follow. Its time is not before the
// previous one's.
Status add_event(db::Transaction& transaction, RunHead& head, const RunEventRecord& event);

// ---- attempts ----
struct AttemptRow {
  Attempt attempt;
  std::string phase;       // The last kind reported; empty before the first.
  int64_t report_seq = 0;  // The last report taken,
  int64_t sample_seq = 0;  // and the last sample.
  std::string instance;    // The supervisor that claimed it; empty: none yet.
  int64_t outage_s = 0;    // Assignment::outage_s, as it was told.
};
Result<AttemptRow> attempt_row(db::Db& db, int64_t run, int number);
Status insert_attempt(db::Transaction& transaction, int64_t run, const AttemptRow& row);
Status save_attempt(db::Transaction& transaction, int64_t run, const AttemptRow& row);
// The attempt's only token from now on.
Status set_attempt_token(db::Transaction& transaction, const RunHead& head, int attempt,
                         std::string_view secret, WallTime now);
// The SHA-256 of the attempt's only token, in hex.
Result<std::string> attempt_token_hash(db::Db& db, int64_t run, int attempt);
// Ended, and perhaps still with something on its node.
struct UnreleasedAttempt {
  AttemptId attempt;
  std::string queue;
};
Result<std::vector<UnreleasedAttempt>> unreleased_attempts(db::Db& db);
Status mark_released(db::Transaction& transaction, const AttemptId& attempt);

// ---- the queue ----
struct QueuedRun {
  RunId id;
  int64_t number = 0;
  Resources resources;
  int nodes = 1;
};
// By priority; among equals first come first. What is held for its environment is passed by, here
// and where places are counted.
enum class Wanting { anything, no_gpu };
Result<std::vector<QueuedRun>> queue_front(db::Db& db, std::string_view queue, int limit,
                                           Wanting wanting = Wanting::anything);
// Queued runs before this one in that order.
Result<int64_t> count_queued_before(db::Db& db, std::string_view queue, Priority priority,
                                    int64_t number);
// Those of a priority with after < number < before.
Result<int64_t> count_queued_between(db::Db& db, std::string_view queue, Priority priority,
                                     int64_t after, int64_t before);
// How many wait in each queue, and how many of them are held.
struct QueueLength {
  int64_t queued = 0;
  int64_t held = 0;
};
Result<std::map<std::string, QueueLength>> count_queued(db::Db& db);
// Those that are held, by their environments.
struct HeldRun {
  RunId id;
  std::string environment;  // Its hash.
};
Result<std::vector<HeldRun>> held_runs(db::Db& db);
// Whether a run waits for the environment, or has yet to. Reads the specs of all that wait.
Result<bool> environment_is_awaited(db::Db& db, std::string_view hash);
// Every run that is neither over nor queued nor interactive.
Result<std::vector<RunId>> live_runs(db::Db& db);

// ---- interactive runs ----
// Children of a run that are not over.
Result<std::vector<RunId>> open_children(db::Db& db, int64_t run);

// ---- what a run refers to ----
Result<int64_t> get_or_create_experiment(db::Transaction& transaction, int64_t workspace,
                                         std::string_view name, WallTime now);
struct KnownSnapshot {
  int64_t files = 0;
  int64_t bytes = 0;
  bool checked = false;  // Its blobs were looked at just now; else the table said that it is whole.
};
Result<std::optional<KnownSnapshot>> known_snapshot(db::Db& db, std::string_view tree);
// Also notes that it was submitted again, to the hour: garbage collection leaves it alone.
Status remember_snapshot(db::Transaction& transaction, std::string_view tree,
                         const KnownSnapshot& snapshot, WallTime now);
// A run of the workspace names it.
Status remember_tree(db::Transaction& transaction, int64_t workspace, std::string_view tree);

}  // namespace trainyard::store
