#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fake_clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cluster_engine.h"
#include "control/control.h"
#include "engine/fake.h"
#include "random.h"
#include "store/store.h"

namespace trainyard::sim {

// A control plane and its database, as they are, before a cluster that is none: thousands of nodes
// and of runs that wait for them, in simulated time. It keeps a queue of its own by the rules and
// compares. tests/sim/cluster_test.cc asks whether it is right, bench/control_bench.cc how fast.
class Cluster {
 public:
  struct Plan {
    int nodes = 1000;
    int ahead = 50;  // Runs beyond the nodes that wait in the cluster's own queue.
    uint64_t seed = 1;
    seconds shortest{20};  // A run's time on its node.
    seconds longest{120};
  };
  explicit Cluster(const Plan& plan)
      : plan_(plan), random_(plan.seed), engine_(plan.nodes, plan.ahead) {}
  ~Cluster();

  enum class Sync { yes, no };  // no: nothing waits for the disk.
  void start(Sync sync);
  void stop();

  // None: each its own, by chance.
  void submit(int count, std::optional<Priority> priority = std::nullopt);
  // A second passes: runs begin, tell and end; the control plane does what there is to do.
  void step();
  // The nodes of so many running attempts are taken away.
  void evict(int count);
  // Rounds of the scheduler until it has nothing to do.
  void settle();

  bool all_over() const { return over_ == static_cast<int>(runs_.size()); }
  // Looks at every run in the database: each ended, once, of an attempt for every eviction.
  void check_all();
  // The first rule that was broken; empty: none.
  const std::string& broken() const { return broken_; }

  control::Control& control() { return *control_; }
  store::Store& store() { return *store_; }
  ClusterEngine& engine() { return engine_; }
  RunId queued_last() const;  // Of those that wait, the last in line.
  size_t queued() const { return queue_.size(); }
  int evictions() const { return evictions_; }

  // How long rounds took by the machine's clock, in milliseconds.
  struct Rounds {
    std::vector<double> placing;  // Those that placed something,
    std::vector<double> idle;     // and that did not.
  };
  Rounds rounds;

 private:
  enum class Happening { heartbeat, end, orphan };
  struct Event {
    AttemptId attempt;
    Happening what;
  };
  struct Place {  // In line; the smaller first.
    int behind = 0;
    int number = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Known {
    Place place;
    int attempts = 0;
  };

  void break_rule(const std::string& rule);
  void check_placed();
  void happen(const Event& event);
  void begin(const AttemptId& attempt);
  static RunId id_of(int number);
  Known& known(const RunId& id);

  const Plan plan_;
  Random random_;
  const MonotoneClock machine_;
  FakeClock clock_;
  NullLog log_;
  TempDir dir_;
  engine::FakeEngine here_{{.cpus = 1, .memory_bytes = 1 << 30}};
  ClusterEngine engine_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Control> control_;

  std::vector<Known> runs_;  // By their number.
  std::set<Place> queue_;
  std::set<AttemptId> running_;
  std::multimap<SteadyTime, Event> events_;
  int over_ = 0;
  int evictions_ = 0;
  std::string broken_;
};

}  // namespace trainyard::sim
