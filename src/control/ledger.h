#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace trainyard::control {

// Who holds what of a machine, and when each was last heard of. A picture of the database for
// quick decisions; made anew at every start. Not thread-safe.
class Ledger {
 public:
  explicit Ledger(const engine::Capacity& capacity) : capacity_(capacity) {}

  const engine::Capacity& capacity() const { return capacity_; }
  int cpus_used() const { return cpus_used_; }
  int64_t memory_used() const { return memory_used_; }
  int cpus_free() const { return capacity_.cpus - cpus_used_; }
  size_t gpus_free() const { return capacity_.gpus.size() - gpus_used_.size(); }
  // GPUs asked of a machine that has none count as none: the run goes on without.
  bool fits(const Resources& wants) const;
  size_t live() const { return holdings_.size(); }
  bool holds(const AttemptId& attempt) const { return holdings_.contains(attempt); }

  // Counted here and not in the database, where it would cost as much as the queue is long.
  int64_t queued = 0;

  // Once per attempt: taking again changes nothing. Gives the device numbers of its GPUs; `gpus`
  // are those it had before a restart.
  std::vector<int> take(const AttemptId& attempt, const Resources& resources, SteadyTime now,
                        std::vector<int> gpus = {});
  // false: it held nothing.
  bool give_back(const AttemptId& attempt);
  void clear();

  // A sign of life.
  void heard(const AttemptId& attempt, SteadyTime now);
  // Those silent for `term` that nobody has looked at for as long, with how long they are silent.
  struct Silent {
    AttemptId attempt;
    microseconds silence{};
  };
  std::vector<Silent> silent(SteadyTime now, microseconds term);
  // When silent() may next have something to say.
  std::optional<SteadyTime> next_look(microseconds term) const;
  // We were not there for so long ourselves (a suspended laptop, a stopped process): nobody is to
  // blame for having been silent meanwhile.
  void forgive(microseconds gap);

 private:
  struct Holding {
    Resources resources;
    std::vector<int> gpus;
    SteadyTime heard{};
    SteadyTime looked{};
  };

  engine::Capacity capacity_;
  int cpus_used_ = 0;
  int64_t memory_used_ = 0;
  std::set<int> gpus_used_;
  std::map<AttemptId, Holding> holdings_;
};

}  // namespace trainyard::control
