#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"

namespace trainyard::control {

// Who holds what of which target, and when each was last heard of. A picture of the database for
// quick decisions; made anew at every start. Not thread-safe.
class Ledger {
 public:
  // What is known of one target.
  struct Account {
    engine::Capacity capacity;
    int cpus_used = 0;
    int64_t memory_used = 0;
    // Shared by all targets on the server's machine.
    std::shared_ptr<std::set<int>> gpus_used = std::make_shared<std::set<int>>();
    int nodes_used = 0;
    int live = 0;         // Attempts.
    int begun = 0;        // Of these, whose supervisors were heard of: they wait for nothing there.
    bool paused = false;  // Nothing new is placed.
    // Counted here and not in the database, where it would cost as much as the queue is long.
    int64_t queued = 0;
    int64_t held = 0;  // Of these, for their environments.

    int cpus_free() const { return capacity.cpus - cpus_used; }
    int slots_free() const { return std::max(0, capacity.slots - nodes_used); }
    size_t gpus_free() const;
    // So many attempts more that want this, and so many nodes, together? GPUs asked of a machine
    // that has none count as none: the run goes on without. In a target with a queue of its own so
    // many may wait as its window says; what runs there is its own affair.
    bool fits(const Resources& wants, int attempts, int nodes = 1) const;
    // How many attempts more could be placed at the most.
    int room() const;
  };

  // A target is there, or has changed. Its queue may have filled before.
  void open(std::string_view queue, const engine::Capacity& capacity);
  // Made when first asked for: a queue may outlive its target.
  Account& account(std::string_view queue);

  size_t live() const { return holdings_.size(); }
  bool holds(const AttemptId& attempt) const { return holdings_.contains(attempt); }
  // Where the attempt is; empty: it holds nothing.
  std::string queue_of(const AttemptId& attempt) const;

  // Once per attempt: taking again changes nothing. Gives the device numbers of its GPUs; `gpus`
  // are those it had before a restart. `resources` are a node's.
  std::vector<int> take(const AttemptId& attempt, std::string_view queue,
                        const Resources& resources, SteadyTime now, std::vector<int> gpus = {},
                        int nodes = 1);
  // false: it held nothing.
  bool give_back(const AttemptId& attempt);
  void clear();

  // A sign of life of one of its nodes: the attempt is as silent as the one heard of least. True:
  // the first of it, and its place in its target's window is free.
  bool heard(const AttemptId& attempt, SteadyTime now, int node = 0, int nodes = 1);
  // Those silent for `term` that nobody has looked at for as long, with how long they are silent.
  struct Silent {
    AttemptId attempt;
    std::string queue;
    microseconds silence{};
  };
  std::vector<Silent> silent(SteadyTime now, microseconds term);
  // Reports of one of its nodes were taken, or could not be, for the reason `stuck`.
  void progressed(const AttemptId& attempt, SteadyTime now, int node, const std::string& stuck);
  // It was canceled, and is to be in its finalizing phase, which ends this, soon after `since`.
  void canceled(const AttemptId& attempt, SteadyTime since);
  void finalizing(const AttemptId& attempt);
  // Those of which reports could not be taken, or which did not stop, for `term`, and nobody has
  // looked at for as long.
  struct Stuck {
    AttemptId attempt;
    std::string queue;
    microseconds time{};
    std::string why;
  };
  // Who was not heard of within `lease` is silent, and not stuck.
  std::vector<Stuck> stuck(SteadyTime now, microseconds term, microseconds lease);
  // When silent() may next have something to say.
  std::optional<SteadyTime> next_look(microseconds term) const;
  // We were not there for so long ourselves (a suspended laptop, a stopped process): nobody is to
  // blame for having been silent meanwhile.
  void forgive(microseconds gap);

 private:
  struct Holding {
    std::string queue;
    Resources resources;
    std::vector<int> gpus;
    int on_nodes = 1;
    SteadyTime heard{};
    SteadyTime looked{};
    std::vector<SteadyTime> nodes;  // When each was heard of, where there are several.
    bool begun = false;
    struct Jam {
      SteadyTime since{};
      SteadyTime looked{};
      std::string why;
    };
    std::map<int, Jam> jams;  // Nodes whose reports cannot be taken; -1: a cancel has no effect.
  };

  std::map<std::string, Account, std::less<>> accounts_;
  std::map<AttemptId, Holding> holdings_;
};

}  // namespace trainyard::control
