#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "control/environments.h"
#include "engine/engine.h"
#include "model/gang.h"
#include "model/run.h"
#include "store/pending_outputs.h"
#include "store/store.h"

namespace trainyard::control {

// What the server knows of itself, for supervisors.
struct Addresses {
  std::string socket;
  std::string url;
  std::string blobs;         // The folder, handed to supervisors on this host.
  std::string environments;  // The same of realised environments.
};

// Says whether a snapshot is here whole, and how large it is. The answer for one that is there is
// remembered in the database.
struct SnapshotSize {
  int64_t files = 0;
  int64_t bytes = 0;
};
using SnapshotCheck = std::function<Result<SnapshotSize>(std::string_view tree)>;

// Makes one tree of what several nodes put out.
struct NodeOutputs {
  int node = 0;
  std::string tree;
};
struct MergedOutputs {
  std::string tree;
  std::string warning;  // Where paths differed.
};
struct OutputsToMerge {
  std::string before;  // The tree that all began with; empty: none.
  std::vector<NodeOutputs> nodes;
};
using MergeOutputs = std::function<Result<MergedOutputs>(const OutputsToMerge& outputs)>;

// What a run waits for whose environment is being made, in words; empty: nothing.
using EnvironmentWords = std::function<std::string(const Environment& environment)>;

// Whether a node elsewhere could fetch it at once.
using EnvironmentReady = std::function<bool(const Environment& environment)>;

struct Submission {
  RunId id;  // Made by the client: the same id with the same spec is the same run.
  RunSpec spec;
  std::string user;
  Role role = Role::submitter;  // Of the user, for what the environment asks of machines.
  SteadyTime arrived{};         // What its image's tag stands for is not older than this.
};
struct Submitted {
  Run run;
  bool created = false;  // false: it was there already.
};

// What is to be changed of a run's labels.
struct LabelChanges {
  std::map<std::string, std::optional<std::string>> tags;  // None: it is removed.
  std::map<std::string, std::string> properties;           // conflict where one is another already.
  std::optional<std::string> display_name;
  std::optional<std::string> description;
  std::optional<bool> archived;
};

// All runs: what submit, cancel and reports change, and the loop that places what waits. It decides
// by model/run_state and does through store and engine; it never sees a process. Thread-safe.
class Control {
 public:
  struct Parts {
    Clock& clock;
    store::Store& store;
    engine::Engine& engine;  // Of `local`; others come by add_target().
    Log& log;
    Addresses addresses;
    SnapshotCheck snapshot_check;
    MergeOutputs merge_outputs;
    EnvironmentWords environment_words;
    // Runs for elsewhere are held until theirs is; none: nobody is.
    EnvironmentReady environment_ready = {};
    EnvironmentRules environment_rules = {};
    // A line for the run's system log.
    std::function<void(const RunId&, const std::string& line)> note = {};
    // Syncs what the run printed: before it is written down that nothing more will come.
    std::function<void(const RunId&)> seal = {};
    // A run's version grew: wakes its readers.
    std::function<void(const RunId&)> changed;
  };
  static std::unique_ptr<Control> create(Parts parts);
  virtual ~Control() = default;

  virtual Result<Submitted> submit(const Submission& submission) = 0;
  virtual Result<Run> cancel(const RunId& id, std::string_view by) = 0;
  // Takes rights of a user away: `change` does so in the database, and with the same commit the
  // runs that the user may not submit any more are canceled, with `why` as their reason, and the
  // tokens of their attempts stop. Their supervisors are refused and kill what runs.
  struct Withdrawal {
    std::string user;
    std::string by;
    std::string why;
    std::function<Status(db::Transaction&)> change;
  };
  virtual Status withdraw(const Withdrawal& withdrawal) = 0;
  // Takes what is new of a node's reports; conflict for an attempt that is not the newest or is
  // over.
  virtual Result<Orders> report(const AttemptNode& from, std::span<const Report> reports) = 0;
  virtual Result<Orders> orders(const AttemptNode& of) = 0;
  // All that a supervisor elsewhere is told, who holds the attempt's token; conflict as above.
  virtual Result<Assignment> assignment(const AttemptId& attempt, std::string_view token,
                                        int node) = 0;

  // A job that has started shows "TICKET.NONCE" (model/handover.h). `conflict`: the ticket was
  // shown before by another, or the attempt is over. `unavailable`: its job is not known to have
  // started.
  virtual Status hand_over(const AttemptId& attempt, std::string_view bearer) = 0;

  // A supervisor here is to end an attempt whose own are gone: what each node's is told, with a new
  // token, which is the attempt's only one.
  virtual Result<std::vector<Assignment>> take_over(const AttemptId& attempt) = 0;

  virtual Result<Run> update(const RunId& id, const LabelChanges& changes) = 0;
  // The end of an interactive run, as its program says.
  virtual Result<Run> end(const RunId& id, RunStatus status, std::string_view error) = 0;
  // A file of an interactive run's outputs, which set_outputs() puts into their tree later.
  // conflict: the run is over or not interactive, or a file is where the path needs a folder.
  virtual Status add_output(const RunId& id, const store::PendingOutput& output) = 0;
  // The tree of an interactive run's outputs, with these files in it.
  virtual Status set_outputs(const RunId& id, std::string_view tree,
                             const std::vector<store::PendingOutput>& added) = 0;
  // Records (wire/records.h) of a rank, the bytes from `from` on of its stream. What was taken
  // before is skipped, what lies beyond it is not taken; returns how many bytes are: go on there.
  // A line that is no record is skipped. Attempt 0 is any program outside of an attempt, and
  // `rank` then a number it has chosen for its stream.
  virtual Result<int64_t> take_records(const AttemptId& attempt, int rank, int64_t from,
                                       std::string_view bytes) = 0;
  // Whole lines of an interactive run; returns how many were records.
  virtual Result<int64_t> take_records(const RunId& run, std::string_view lines) = 0;

  // The run with its reason computed now: "waits for 2 CPUs: 1 free of 2; position 3".
  virtual Result<Run> run(const RunId& id) = 0;
  virtual Result<std::vector<Run>> runs(const store::RunFilter& filter,
                                        store::ReadKind kind = store::ReadKind::normal) = 0;

  // An environment as a submission of it would have it: see control/environments.h.
  virtual Result<Environment> resolve_environment(std::string_view workspace,
                                                  const Environment& asked,
                                                  const EnvironmentUse& use) = 0;

  // Runs that are held (Run::held): their environment is made, and they are given places; or it
  // could not be, and they fail. Those that are not held any more are passed over.
  virtual Status let_go(std::span<const RunId> held) = 0;
  virtual Status fail_held(std::span<const RunId> held, std::string_view why) = 0;

  // After a start: takes up again every run that is not over.
  virtual Status recover() = 0;
  // One round: places what fits, looks after leases. Returns when to call again at the latest.
  // The simulator and tests call it; run() does so in a loop, woken by every change.
  virtual SteadyTime tick() = 0;
  virtual void run(std::stop_token stop) = 0;

  struct Load {
    engine::Capacity capacity;
    int cpus_used = 0;
    int64_t memory_used_bytes = 0;
    int64_t gpus_free = 0;
    int64_t queued = 0;  // Those that are held too.
    int64_t live = 0;
  };
  virtual Load load(std::string_view queue = kLocalQueue) = 0;

  // Targets beyond this machine, by their queue (queue_of). Runs may wait for one before it is
  // there; those of one that is gone wait on. Shared: a call under way outlives its target.
  virtual void add_target(const std::string& queue, std::shared_ptr<engine::Engine> engine) = 0;
  virtual void remove_target(std::string_view queue) = 0;
  // Nothing new is placed on a paused one; what is live there goes on.
  virtual void pause_target(std::string_view queue, bool paused) = 0;
};

}  // namespace trainyard::control
