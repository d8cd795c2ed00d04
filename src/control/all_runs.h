#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "control/bell.h"
#include "control/control.h"
#include "control/insert.h"
#include "control/ledger.h"
#include "control/reasons.h"
#include "control/transitions.h"
#include "store/run_rows.h"

namespace trainyard::control {

// A supervisor says something every few seconds; silent for so long, it is looked after …
inline constexpr seconds kLeaseTerm{60};
// … and killed after this, if it lives at all.
inline constexpr seconds kSilenceMax{600};
inline constexpr seconds kReleaseAgain{5};
// A supervisor that is heard of while its reports cannot be taken is ended after this.
inline constexpr seconds kStuckMax{600};

// Control, one concern a file: submit.cc, cancel.cc, held.cc, scheduler.cc, leases.cc, reports.cc,
// release.cc, recover.cc, control.cc.
//
// Every change goes the same way: decide and write in one transaction (transitions.h), then, after
// the commit, do what it asks for (settle()). The engine is never called inside a transaction.
class AllRuns final : public Control {
 public:
  explicit AllRuns(Parts parts);
  ~AllRuns() override;

  Result<Submitted> submit(const Submission& submission) override;
  Result<Run> cancel(const RunId& id, std::string_view by) override;
  Status withdraw(const Withdrawal& withdrawal) override;
  Result<Orders> report(const AttemptNode& from, std::span<const Report> reports) override;
  Result<Orders> orders(const AttemptNode& of) override;
  Result<Assignment> assignment(const AttemptId& attempt, std::string_view token,
                                int node) override;
  Status hand_over(const AttemptId& attempt, std::string_view bearer) override;
  Result<std::vector<Assignment>> take_over(const AttemptId& attempt) override;
  Result<Run> update(const RunId& id, const LabelChanges& changes) override;
  Result<Run> end(const RunId& id, RunStatus status, std::string_view error) override;
  Status add_output(const RunId& id, const store::PendingOutput& output) override;
  Status set_outputs(const RunId& id, std::string_view tree,
                     const std::vector<store::PendingOutput>& added) override;
  Result<int64_t> take_records(const AttemptId& attempt, int rank, int64_t from,
                               std::string_view bytes) override;
  Result<int64_t> take_records(const RunId& run, std::string_view lines) override;
  Result<Run> run(const RunId& id) override;
  Result<std::vector<Run>> runs(const store::RunFilter& filter, store::ReadKind kind) override;
  Result<Environment> resolve_environment(std::string_view workspace, const Environment& asked,
                                          const EnvironmentUse& use) override;
  Status let_go(std::span<const RunId> held) override;
  Status fail_held(std::span<const RunId> held, std::string_view why) override;
  Status recover() override;
  SteadyTime tick() override;
  void run(std::stop_token stop) override;
  Load load(std::string_view queue) override;
  void add_target(const std::string& queue, std::shared_ptr<engine::Engine> engine) override;
  void remove_target(std::string_view queue) override;
  void pause_target(std::string_view queue, bool paused) override;

 private:
  // ---- submit.cc ----
  Status check_machine(const RunSpec& spec);
  Status check_python(const RunSpec& spec);
  Status check_resolved(const RunSpec& spec);
  Error no_such_target(const RunSpec& spec);
  Result<Submitted> add_run(const Submission& submission, std::string_view spec_json,
                            std::string_view spec_hash);
  Result<Submitted> same_again(const store::RunHead& head, std::string_view spec_hash);
  Result<store::KnownSnapshot> find_snapshot(std::string_view tree);
  Status check_gpus(const RunSpec& spec, const engine::Capacity& has) const;

  // ---- scheduler.cc; under tick_mutex_ ----
  bool place_waiting(const std::string& queue);
  std::string new_attempt_secret(std::string_view queue);
  struct Claim {
    Run run;
    AttemptId attempt;
    std::string secret;
    std::vector<int> gpus;
    bool made = false;
    int64_t outage_s = 0;  // Of the attempt's row.
  };
  // The first of the queue that fit, as far as they fit one after the other; in the ledger already.
  Result<std::vector<Claim>> choose(const std::string& queue);
  Result<bool> add_claims(db::Db& db, const std::string& queue,
                          const std::vector<store::QueuedRun>& front, std::vector<Claim>& claims);
  Status commit_claims(std::vector<Claim>& claims);
  void place(const Claim& claim);
  Assignment assignment(const Claim& claim, const engine::Engine* engine) const;

  // ---- leases.cc; under tick_mutex_ ----
  bool bury_gone();
  void explain_eviction(const AttemptId& attempt, const std::string& why);
  void look_after_leases();
  bool look_after_cut_off(const Ledger::Silent& one, const std::string& heard);
  void end_stuck();
  bool kill_for_good(const AttemptId& attempt, std::string_view queue);
  void lose(Loss loss);  // Its time is set here.
  void lose_all(std::vector<Loss> losses);
  void lose_again();

  // ---- recover.cc; under tick_mutex_ ----
  struct Open {
    store::RunHead head;
    std::string phase;             // Of its newest attempt.
    std::optional<seconds> grace;  // It was canceled and is to stop its program within this.
    std::vector<int> gpus;
    int64_t outage_s = 0;
  };
  Result<std::vector<Open>> find_open();
  void take_up(const Open& open);
  void place_again(const Open& open);

  // ---- reports.cc ----
  struct Taken {
    Orders answer;
    std::optional<Applied> applied;
    bool wake = false;  // Other nodes have new orders.
    int nodes = 1;
    bool finalizing = false;  // The run's phase.
    bool rival = false;       // Refused: another supervisor has claimed the node.
    std::string stuck;        // Why not all reports were taken; empty: they were.
    void note(const Report* left, int64_t seq);
    // All nodes have ended and their outputs are to be merged before that can be written down.
    OutputsToMerge to_merge;
  };
  Status take_reports(db::Transaction& transaction, const AttemptNode& from,
                      std::span<const Report> reports, const std::optional<MergedOutputs>& merged,
                      Taken& taken);
  Result<Orders> orders(const AttemptNode& of, int& nodes);
  std::optional<MergedOutputs> merge(const OutputsToMerge& outputs);

  // ---- held.cc ----
  std::string held_for(const RunSpec& spec);  // Run::held of a new run.
  std::string held_reason(const Environment& environment) const;
  using HeldChange =
      std::function<Result<Applied>(db::Transaction& transaction, store::RunHead& head)>;
  Status change_held(std::span<const RunId> held, int64_t queued, const HeldChange& change);

  // ---- release.cc; one thread ----
  void release_ended();

  // ---- cancel.cc ----
  struct Canceled {
    Applied applied;
    std::string queue;     // Of one that was queued,
    int64_t held = 0;      // and perhaps held.
    bool unheard = false;  // It has a place, and nobody is there yet to be told.
  };
  Result<Canceled> cancel_in(db::Transaction& transaction, store::RunHead& head,
                             const CancelAsked& event, std::string text);
  void settle(const Canceled& canceled);
  Status withdraw_in(db::Transaction& transaction, const Withdrawal& withdrawal,
                     std::vector<Canceled>& canceled);
  Result<Canceled> withdraw_run(db::Transaction& transaction, store::RunHead& head,
                                const Withdrawal& withdrawal);
  static Withdrawal unfinished_withdrawal(const std::string& user);
  void finish_withdrawals();
  void take_back(const AttemptId& attempt, std::string_view queue);
  // ---- control.cc ----
  // After the commit: gives back, wakes, tells.
  void settle(const Applied& applied);
  QueueView queue_view(std::string_view queue, int64_t position);
  // Null: no such target, or it is gone. Shared: a call under way outlives its target.
  std::shared_ptr<engine::Engine> engine_of(std::string_view queue);
  std::vector<std::string> open_queues();
  Status add_reasons(db::Db& db, std::vector<Run*> runs);
  void add_engine_reason(Run& run);

  const Parts parts_;
  const std::string epoch_ = new_secret("");  // Orders::epoch.
  // Shared with the engine's callback, which may come once more while we are being taken down.
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  Guarded<Ledger> ledger_;
  Guarded<std::map<std::string, std::shared_ptr<engine::Engine>, std::less<>>> engines_;

  // Ended attempts whose nodes are still to be cleared.
  struct Leaving {
    AttemptId attempt;
    std::string queue;
    SteadyTime since{};
    int tries = 0;
  };
  Guarded<std::vector<Leaving>> leaving_;
  Bell clearing_bell_;
  std::atomic<bool> clears_apart_ = false;  // run() has a thread for them; else tick() does it.

  // One round at a time; guards what is below.
  std::mutex tick_mutex_;
  SteadyTime next_tick_{};
  std::map<std::string, SteadyTime> place_after_;  // A pause after an engine has failed.
  std::vector<Loss> unwritten_;                    // The disk refuses them; tried again when due.
  SteadyTime unwritten_due_{};
  seconds unwritten_pause_{0};
};

}  // namespace trainyard::control
