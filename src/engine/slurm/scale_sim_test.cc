// Thousands of seconds of a simulated Slurm, whose nodes come late, fail to come, are taken by
// others and are looked after by a server that is restarted now and then.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "engine/slurm/scale_nodes.h"
#include "engine/slurm/scale_policy.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;
using Is = ScaleNode::Is;

namespace {

constexpr const char* kServer = "srv1";
constexpr int kIdle = 60;
constexpr int kCpus = 4;

struct SimJob {
  std::string id;
  int nodes = 1;
  int cpus = 1;
  int lasts = 1;
  bool ours = true;
  int arrived = 0;
  int ends = -1;                // Running until then.
  std::vector<std::string> on;  // Where.
};

struct Machine {
  std::string state = "down";
  std::string reason;
  int free = kCpus;
  int up_ends = -1;  // A program's end.
  int down_ends = -1;
  bool fails = false;
  bool never = false;  // Its program ends well, and Slurm never sees it.
  int last_down = -1;
};

class World {
 public:
  World(unsigned seed, ScaleLimits limits, int nodes, double failing)
      : random_(seed), limits_(limits), failing_(failing) {
    patience_.come = seconds(90);
    for (int i = 1; i <= nodes; ++i) machines_["n" + std::to_string(100 + i)];
    restart();
  }

  void restart() {
    nodes_ = std::make_unique<ScaleNodes>(kServer, patience_);
    policy_ = ScalePolicy();
    // Programs that were under way are gone with the server; what they did stays.
    for (auto& [name, machine] : machines_) machine.up_ends = machine.down_ends = -1;
  }

  void second(double arrivals) {
    ++now_;
    arrive(arrivals);
    end_programs();
    if (arrivals > 0) lose_one();
    end_jobs();
    start_jobs();
    look();
    act();
    check();
  }

  int now() const { return now_; }
  // Nobody brings nodes up for jobs of others.
  bool all_done() const {
    return running_.empty() &&
           std::ranges::none_of(waiting_, [](const SimJob& job) { return job.ours; });
  }
  int up() const {
    return static_cast<int>(
        std::ranges::count_if(machines_, [](const auto& item) { return is_up(item.second); }));
  }
  ScaleLimits& limits() { return limits_; }
  int ups = 0;
  int downs = 0;
  int late = 0;  // Nodes that did not come.
  int lost = 0;  // That went by themselves.

 private:
  static bool is_up(const Machine& machine) {
    return machine.state == "idle" || machine.state == "mixed" || machine.state == "allocated";
  }
  static SteadyTime at(int second) { return SteadyTime(seconds(1'000'000 + second)); }
  int pick(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }
  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }

  void arrive(double arrivals) {
    if (!chance(arrivals)) return;
    SimJob job;
    job.id = "j" + std::to_string(++count_);
    job.nodes = chance(0.3) ? pick(2, std::min(4, limits_.max_nodes)) : 1;
    job.nodes = std::min(job.nodes, limits_.max_nodes);
    job.cpus = pick(1, kCpus);
    job.lasts = pick(1, 120);
    job.ours = chance(0.9);
    job.arrived = now_;
    if (job.ours) newest_ = now_;
    waiting_.push_back(job);
  }

  // A machine hangs: Slurm gives it and its jobs up; these wait again.
  void lose_one() {
    if (!chance(failing_ / 50)) return;
    for (auto& [name, machine] : machines_) {
      if (!is_up(machine) || machine.down_ends >= 0 || machine.up_ends >= 0) continue;
      std::erase_if(running_, [&](SimJob& job) {
        if (std::ranges::find(job.on, name) == job.on.end()) return false;
        for (const std::string& on : job.on) give(machines_[on], -job.cpus);
        job.on.clear();
        waiting_.push_back(job);
        if (job.ours) newest_ = now_;
        return true;
      });
      machine.state = "down";
      machine.reason = "Not responding";
      ++lost;
      return;
    }
  }

  void end_programs() {
    for (auto& [name, machine] : machines_) {
      if (machine.up_ends == now_) {
        machine.up_ends = -1;
        const bool failed = machine.fails;
        if (!failed && !machine.never) machine.state = "idle", machine.reason.clear();
        nodes_->ended_up(name, failed ? Status(fail(ErrorKind::unavailable, "exit 1")) : Status{},
                         at(now_));
      }
      if (machine.down_ends == now_) {
        machine.down_ends = -1;
        machine.state = "drained";
        machine.reason = mark_of(kServer, Mark::off);
        nodes_->ended_down(name, ScaleNodes::Left::yes, at(now_));
      }
    }
  }

  void end_jobs() {
    std::erase_if(running_, [&](const SimJob& job) {
      if (job.ends > now_) return false;
      for (const std::string& name : job.on) give(machines_[name], -job.cpus);
      return true;
    });
  }

  static void give(Machine& machine, int cpus) {
    machine.free -= cpus;
    if (!is_up(machine)) return;
    machine.state = machine.free == kCpus ? "idle" : machine.free == 0 ? "allocated" : "mixed";
  }

  // In order; what does not fit is passed over, as by a backfill.
  void start_jobs() {
    std::erase_if(waiting_, [&](SimJob& job) {
      std::vector<std::string> on;
      for (const auto& [name, machine] : machines_) {
        if (std::ssize(on) < job.nodes && is_up(machine) && machine.free >= job.cpus) {
          on.push_back(name);
        }
      }
      if (std::ssize(on) < job.nodes) return false;
      for (const std::string& name : on) give(machines_[name], job.cpus);
      job.on = on;
      job.ends = now_ + job.lasts;
      running_.push_back(job);
      return true;
    });
  }

  void look() {
    std::vector<Node> seen;
    for (const auto& [name, machine] : machines_) {
      Node node;
      node.name = name;
      node.state = machine.state;
      node.reason = machine.reason;
      node.cpus = kCpus;
      node.cpus_free = machine.free;
      seen.push_back(node);
    }
    nodes_->saw(seen, {}, at(now_), at(now_));
  }

  void act() {
    std::vector<ScaleWant> wants;
    for (const SimJob& job : waiting_) {
      if (!job.ours) continue;
      ScaleWant want{.id = job.id, .nodes = job.nodes, .each = {}};
      want.each.cpus = job.cpus;
      wants.push_back(want);
    }
    const ScaleDecision decision = policy_.decide(limits_, nodes_->view(at(now_)), wants, at(now_));
    for (const std::string& name : decision.up) bring_up(name);
    for (const std::string& name : decision.down) {
      ++downs;
      const int least = limits_.paused ? 0 : limits_.min_nodes;
      if (machines_[name].state == "idle") CHECK(up() > least);
      take_down(name);
    }
    const std::vector<std::string> gone = nodes_->take_lost();
    late += static_cast<int>(gone.size());
    for (const std::string& name : gone) take_down(name);
  }

  void bring_up(const std::string& name) {
    ++ups;
    Machine& machine = machines_[name];
    CHECK_FALSE(limits_.paused);
    CHECK_FALSE(is_up(machine));
    CHECK(machine.up_ends == -1);
    // It went down a moment ago only if something new came that it is needed for.
    if (machine.last_down >= 0 && now_ - machine.last_down < 20 && limits_.min_nodes == 0) {
      CHECK(newest_ >= machine.last_down);
    }
    machine.up_ends = now_ + pick(1, 40);
    machine.fails = chance(failing_);
    machine.never = !machine.fails && chance(failing_ / 2);
    nodes_->begin_up(name, at(now_));
  }

  void take_down(const std::string& name) {
    Machine& machine = machines_[name];
    CHECK(machine.free == kCpus);  // Nobody's job is there.
    CHECK(machine.down_ends == -1);
    machine.last_down = now_;
    machine.state = "drained";
    machine.reason = mark_of(kServer, Mark::leaves);
    machine.down_ends = now_ + pick(1, 5);
    nodes_->begin_down(name, at(now_));
  }

  void check() {
    int on = 0;
    for (const ScaleNode& node : nodes_->view(at(now_))) {
      on += node.is == Is::up || node.is == Is::coming || node.is == Is::leaving ? 1 : 0;
    }
    REQUIRE(on <= limits_.max_nodes);
  }

  std::mt19937 random_;
  ScaleLimits limits_;
  const double failing_;
  ScalePatience patience_;
  std::unique_ptr<ScaleNodes> nodes_;
  ScalePolicy policy_;
  std::map<std::string, Machine> machines_;
  std::vector<SimJob> waiting_;
  std::vector<SimJob> running_;
  int now_ = 0;
  int newest_ = -1;
  int count_ = 0;
};

ScaleLimits limits_of(int least, int most) {
  ScaleLimits limits;
  limits.min_nodes = least;
  limits.max_nodes = most;
  limits.idle = seconds(kIdle);
  return limits;
}

// Until all is done and settled, with nothing new; not for ever.
void settle(World& world) {
  const int limit = world.now() + 40'000;
  while (!world.all_done() && world.now() < limit) world.second(0);
  REQUIRE(world.all_done());
  const int end = world.now();
  while (world.up() > world.limits().min_nodes && world.now() < end + kIdle + 2) world.second(0);
}

}  // namespace

TEST_CASE("whatever comes and fails, every run gets its nodes and all go down to the least") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const int least = static_cast<int>(seed % 3);
    World world(seed, limits_of(least, 6), 8, 0.15);
    for (int i = 0; i < 2500; ++i) world.second(0.05);
    settle(world);
    CHECK(world.up() == least);
    CHECK(world.ups > 10);
    CHECK(world.late > 0);
    CHECK(world.lost > 0);
    // Nothing moves any more.
    for (int i = 0; i < 400; ++i) world.second(0);  // What was lost is taken down.
    const int moves = world.ups + world.downs;
    for (int i = 0; i < 500; ++i) world.second(0);
    CHECK(world.ups + world.downs == moves);
    CHECK(world.up() == least);
  }
}

TEST_CASE("a server that is restarted at any time goes on with what Slurm shows") {
  for (unsigned seed = 101; seed <= 108; ++seed) {
    CAPTURE(seed);
    World world(seed, limits_of(1, 5), 7, 0.1);
    for (int i = 0; i < 2000; ++i) {
      world.second(0.05);
      if (i % 97 == 0) world.restart();
    }
    settle(world);
    CHECK(world.up() == 1);
  }
}

TEST_CASE("without failures a node comes up once for a burst, and is not moved again while used") {
  World world(7, limits_of(0, 4), 4, 0);
  for (int i = 0; i < 300; ++i) world.second(0.2);
  // So much work that all four stay in use.
  CHECK(world.ups == 4);
  CHECK(world.downs == 0);
  settle(world);
  CHECK(world.up() == 0);
  CHECK(world.downs == 4);
}

TEST_CASE("a compute that is paused lets everything go, and takes it up again") {
  World world(11, limits_of(2, 4), 6, 0);
  for (int i = 0; i < 100; ++i) world.second(0.1);
  world.limits().paused = true;
  const int ups = world.ups;
  for (int i = 0; i < 1000; ++i) world.second(0);
  CHECK(world.up() == 0);
  CHECK(world.ups == ups);
  world.limits().paused = false;
  for (int i = 0; i < 100; ++i) world.second(0);
  CHECK(world.up() >= 2);
}
