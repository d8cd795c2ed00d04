#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace trainyard::engine {

// An engine without machines, told by its test what happens: for tests and the simulator. What it
// has placed outlives a restart of the control plane, as supervisors do. Thread-safe.
class FakeEngine : public Engine {
 public:
  explicit FakeEngine(Capacity capacity) : capacity_(std::move(capacity)) {}

  Capacity capacity() const override { return capacity_; }
  Status place(const Assignment& assignment) override;
  Status recover(const AttemptId& attempt) override;
  Placement inspect(const AttemptId& attempt) override;
  Status kill(const AttemptId& attempt) override;
  Status release(const AttemptId& attempt) override;
  void on_gone(Gone gone) override;
  std::string waits_for(const AttemptId& attempt) override;
  bool may_have_started(const AttemptId& attempt) override { return waits_for(attempt).empty(); }

  // ---- the script ----
  enum class Fault {
    refused,  // place() fails and nothing is placed.
    dropped,  // place() succeeds, yet nothing is there: as a crash right after the claim leaves it.
  };
  void fail_next_place(Fault fault);
  enum class Tell { yes, no };  // no: as when the one who watches has died too.
  // Its supervisor has ended.
  void end(const AttemptId& attempt, const std::string& why, Tell tell = Tell::yes);
  // It goes, for this reason.
  void tell(const AttemptId& attempt, const Going& going);
  // What every placed attempt waits for from now on.
  void set_waiting(std::string why);
  void set_outage(Outage outage) { outage_ = outage; }  // Before anything is placed.
  Outage outage() const override { return outage_; }

  // What a test does when a supervisor appears, is killed, or is to be started again on the journal
  // of a dead one (true: it lives again). Called without a lock.
  struct Hooks {
    std::function<void(const Assignment&)> placed;
    std::function<void(const AttemptId&)> killed;
    std::function<bool(const AttemptId&)> revived;
  };
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

  // ---- what it saw ----
  std::vector<AttemptId> live();
  std::vector<AttemptId> unreleased();
  std::optional<Assignment> assignment(const AttemptId& attempt);

 private:
  struct Placed {
    Assignment assignment;
    bool live = true;
  };

  const Capacity capacity_;
  Outage outage_;
  Hooks hooks_;
  std::mutex mutex_;
  std::map<AttemptId, Placed> placed_;
  std::deque<Fault> faults_;
  std::string waiting_;
  Gone gone_;
};

}  // namespace trainyard::engine
