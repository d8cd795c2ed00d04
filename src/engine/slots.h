#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/local.h"
#include "model/compute.h"
#include "model/vm_size.h"

namespace trainyard::engine {

// A cluster on one machine: `max_nodes` slots NAME-0, NAME-1, …, each a node to the runs there,
// with a supervisor, a folder and a loopback address of its own. A slot belongs to one run at a
// time. All share the machine's CPUs; each has its part of the memory; GPUs are given out by the
// caller.
//
// Nothing is started or stopped when a slot comes or goes: one that is in use is up, stays up for
// the idle time after that, and is off then, except for the least number. Thread-safe.
class Slots : public Engine {
 public:
  struct Settings {
    ComputeSpec compute;
    VmSize size;  // Without a name: none was asked for, and a slot has what the machine has.
    bool paused = false;
    bool submitters_here = false;  // Nobody submits from another machine.
  };
  static Result<std::shared_ptr<Slots>> make(LocalOptions options, Settings settings);

  // What runs there goes on.
  void change(Settings settings);

  Capacity capacity() const override;
  Status place(const Assignment& assignment) override;
  Status recover(const AttemptId& attempt) override;
  Placement inspect(const AttemptId& attempt) override { return local_->inspect(attempt); }
  NodesSeen nodes() override;
  void pause(bool paused) override;
  void vacate(const AttemptId& attempt) override;
  Status kill(const AttemptId& attempt) override { return local_->kill(attempt); }
  Status release(const AttemptId& attempt) override;
  void on_gone(Gone gone) override { local_->on_gone(std::move(gone)); }

 private:
  Slots(const LocalOptions& options, Settings settings)
      : home_(options.home), clock_(options.clock), settings_(std::move(settings)) {}
  void prepare(Assignment& assignment);
  // These hold the lock.
  std::vector<int> choose(int count) const;
  bool is_up(int slot, SteadyTime now) const;
  NodeState state_of(int slot, SteadyTime now) const;

  const Home home_;
  Clock& clock_;
  std::unique_ptr<Engine> local_;

  mutable std::mutex mutex_;
  Settings settings_;                            // Held by mutex_, as these.
  std::map<AttemptId, std::vector<int>> taken_;  // The slots of an attempt, node by node.
  std::map<int, SteadyTime> used_;               // When a slot was last given back.
};

}  // namespace trainyard::engine
