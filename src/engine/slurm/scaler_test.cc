#include "engine/slurm/scaler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>

#include "base/file.h"
#include "base/text.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;

namespace {

// A Slurm of some nodes, whose machines a test's programs switch on and off by files.
class NodeSlurm : public Commands {
 public:
  explicit NodeSlurm(fs::path folder) : folder_(std::move(folder)) {
    for (const char* name : {"n1", "n2", "n3"}) {
      Node node;
      node.name = name;
      node.default_partition = true;
      node.state = "down";
      node.cpus = node.cpus_free = 2;
      nodes_.push_back(node);
    }
  }
  Result<int64_t> submit(const std::string&) override { return 1; }
  Result<std::vector<Job>> queue() override { return std::vector<Job>{}; }
  Status cancel(const std::string&, int64_t) override { return {}; }
  void stop() override {}
  Result<std::vector<Node>> nodes() override {
    std::lock_guard lock(mutex_);
    return nodes_;
  }
  // scontrol update NodeName=n1 State=DRAIN Reason=…
  Result<std::string> ask(std::vector<std::string> command) override {
    std::lock_guard lock(mutex_);
    if (!refusal_.empty()) return fail(ErrorKind::unavailable, refusal_);
    const std::string name = command.at(2).substr(9);
    const std::string state = command.at(3).substr(6);
    Node& node = *std::ranges::find(nodes_, name, &Node::name);
    if (state == "DRAIN") {
      if (taken_by_job_) node.state = "mixed";
      node.state = node.state == "mixed" ? "draining" : "drained";
    }
    if (state == "RESUME") {
      const bool there = fs::exists(folder_ / name);
      node.state = node.state == "draining" ? "mixed" : there ? "idle" : "down";
    }
    node.reason = command.size() > 4 ? command.at(4).substr(7) : "";
    asked_.push_back(name + " " + state);
    return std::string();
  }

  void set(const std::string& name, const std::string& state) {
    std::lock_guard lock(mutex_);
    std::ranges::find(nodes_, name, &Node::name)->state = state;
  }
  std::vector<std::string> asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  std::string reason(const std::string& name) {
    std::lock_guard lock(mutex_);
    return std::ranges::find(nodes_, name, &Node::name)->reason;
  }
  bool taken_by_job_ = false;  // Before a drain is heard.
  std::string refusal_;

 private:
  const fs::path folder_;
  std::mutex mutex_;
  std::vector<Node> nodes_;
  std::vector<std::string> asked_;
};

struct ScalerYard {
  TempDir dir;
  MonotoneClock clock;
  NullLog log;
  NodeSlurm slurm{dir.path()};
  std::mutex mutex;
  std::condition_variable changed;
  int pokes = 0;
  ComputeSpec compute;
  ScalePatience patience;
  std::unique_ptr<Scaler> scaler;

  ScalerYard() {
    compute.name = "lab";
    compute.max_nodes = 2;
    compute.idle_seconds = 0;
    compute.node_up = "touch " + (dir.path() / "up").string() + " && f() { touch " +
                      dir.path().string() + "/\"$1\"; } && f";
    compute.node_down = "f() { rm " + dir.path().string() + "/\"$1\"; } && f";
  }
  void make() {
    scaler = std::make_unique<Scaler>(ScalerOptions{.compute = compute,
                                                    .server_id = "srv1",
                                                    .owner = "lab",
                                                    .clock = clock,
                                                    .log = log,
                                                    .commands = slurm,
                                                    .claims = {},
                                                    .patience = patience,
                                                    .poke = [this] {
                                                      std::lock_guard lock(mutex);
                                                      ++pokes;
                                                      changed.notify_all();
                                                    }});
  }
  void step(int wanted) {
    std::vector<ScaleWant> wants;
    for (int i = 0; i < wanted; ++i) {
      ScaleWant want{.id = "r" + std::to_string(i), .nodes = 1, .each = {}};
      want.each.cpus = 2;
      wants.push_back(want);
    }
    scaler->saw(slurm.nodes().value(), clock.steady());
    scaler->step(wants);
  }
  // Until that many programs have ended.
  void wait_for(int ended) {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, seconds(30), [&] { return pokes >= ended; }));
  }
  NodeState node(const std::string& name) {
    for (const NodeState& state : scaler->nodes().nodes) {
      if (state.name == name) return state;
    }
    return {};
  }
};

}  // namespace

TEST_CASE("a node is switched on and taken by Slurm, then drained, switched off and marked") {
  ScalerYard yard;
  yard.make();
  yard.step(1);
  yard.wait_for(1);
  CHECK(fs::exists(yard.dir.path() / "n1"));
  CHECK_FALSE(fs::exists(yard.dir.path() / "n2"));
  yard.step(1);
  CHECK(yard.node("n1").is == NodeState::Is::idle);
  CHECK(yard.scaler->words("r0").find("n1") != std::string::npos);
  CHECK(yard.scaler->nodes().wanted == 1);
  yard.step(0);
  yard.wait_for(2);
  CHECK_FALSE(fs::exists(yard.dir.path() / "n1"));
  CHECK(yard.slurm.asked() ==
        std::vector<std::string>{"n1 RESUME", "n1 RESUME", "n1 DRAIN", "n1 DOWN"});
  CHECK(yard.slurm.reason("n1") == "trainyard:srv1:off");
  yard.step(0);
  CHECK(yard.node("n1").is == NodeState::Is::off);
}

TEST_CASE("a program that fails is told by its code and its last words") {
  ScalerYard yard;
  yard.compute.node_up = "f() { echo one >&2; echo no quota for $1 >&2; exit 7; }; f";
  yard.make();
  yard.step(1);
  yard.wait_for(1);
  yard.step(1);
  CHECK(yard.node("n1").reason == "did not come: exit 7: no quota for n1");
  CHECK(yard.scaler->words("r0").find("n1 did not come: exit 7: no quota for n1") !=
        std::string::npos);
  CHECK(yard.scaler->words("r0").find("n2 is started instead") != std::string::npos);
}

TEST_CASE("a program that does not end is killed with all that it started") {
  ScalerYard yard;
  const std::string pid = (yard.dir.path() / "pid").string();
  yard.compute.node_up = "echo waiting >&2; sh -c 'echo $$ >" + pid + "; sleep 600' #";
  yard.compute.max_nodes = 1;
  yard.patience.program = seconds(1);
  yard.make();
  yard.step(1);
  yard.wait_for(1);
  yard.step(0);
  CHECK(yard.node("n1").reason == "did not come: its program did not end within 1.0 s: waiting");
  const std::string process(trim(read_file(pid).value()));
  // Killed and to be collected by whoever inherits it, at the most.
  const auto gone = [&] {
    const Result<std::string> stat = read_file("/proc/" + process + "/stat");
    return !stat || stat->find(") Z ") != std::string::npos;
  };
  const SteadyTime limit = yard.clock.steady() + seconds(10);
  while (!gone() && yard.clock.steady() < limit) {
    yard.clock.sleep_until(yard.clock.steady() + milliseconds(5), {});
  }
  CHECK(gone());
}

TEST_CASE("a node that a job takes before it is drained stays up") {
  ScalerYard yard;
  yard.slurm.set("n2", "idle");
  yard.slurm.taken_by_job_ = true;
  yard.make();
  yard.step(0);
  yard.wait_for(1);
  CHECK(yard.slurm.asked() == std::vector<std::string>{"n2 DRAIN", "n2 RESUME"});
  yard.step(0);
  CHECK(yard.node("n2").is == NodeState::Is::running);
  CHECK(yard.slurm.asked().size() == 2);
}

TEST_CASE("a Slurm that does not let us change its nodes is told, with what to do") {
  ScalerYard yard;
  yard.slurm.set("n1", "idle");
  yard.slurm.refusal_ = "scontrol: slurm_update error: Invalid user id";
  yard.make();
  yard.step(0);
  yard.wait_for(1);
  CHECK(yard.scaler->nodes().trouble.find("adminlevel=operator") != std::string::npos);
  CHECK(yard.node("n1").is == NodeState::Is::leaving);
  CHECK(yard.node("n1").reason.find("could not be taken down") != std::string::npos);
}

TEST_CASE("a scaler that is stopped kills its programs and does not wait for them") {
  ScalerYard yard;
  yard.compute.node_up = "sleep 600 #";
  yard.make();
  yard.step(2);
  const SteadyTime before = yard.clock.steady();
  yard.scaler.reset();
  CHECK(yard.clock.steady() - before < seconds(20));
}

TEST_CASE("nodes that another compute brings up and down are not touched") {
  ScalerYard yard;
  const auto claims = std::make_shared<ScaleClaims>();
  CHECK(claims->claim("|", "n1", {.owner = "other", .holder = &yard}) == "other");
  CHECK(claims->claim("|", "n1", {.owner = "lab", .holder = nullptr}) == "other");
  // A compute that was changed is two for a moment.
  const int next = 0;
  CHECK(claims->claim("|", "n1", {.owner = "other", .holder = &next}) == "other");
  claims->release(&yard);
  CHECK(claims->claim("|", "n1", {.owner = "lab", .holder = nullptr}) == "other");
  claims->release(&next);
  CHECK(claims->claim("|", "n1", {.owner = "lab", .holder = nullptr}) == "lab");
}
