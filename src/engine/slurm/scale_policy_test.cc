#include "engine/slurm/scale_policy.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace trainyard;
using namespace trainyard::engine::slurm;
using Is = ScaleNode::Is;
using Names = std::vector<std::string>;

namespace {

SteadyTime policy_time(int second) { return SteadyTime(seconds(1'000'000 + second)); }

ScaleNode node(std::string name, Is is, int since = 0) {
  ScaleNode made;
  made.name = std::move(name);
  made.is = is;
  made.since = policy_time(since);
  made.cpus = 2;
  made.cpus_free = is == Is::up ? 2 : 0;
  return made;
}
ScaleNode busy(std::string name, int free = 0) {
  ScaleNode made = node(std::move(name), Is::up);
  made.busy = true;
  made.cpus_free = free;
  return made;
}
std::vector<ScaleNode> all(Is is, int count = 4) {
  std::vector<ScaleNode> nodes;
  for (int i = 1; i <= count; ++i) nodes.push_back(node("n" + std::to_string(i), is));
  return nodes;
}
ScaleWant want(std::string id, int nodes = 1, int cpus = 2) {
  ScaleWant made;
  made.id = std::move(id);
  made.nodes = nodes;
  made.each.cpus = cpus;
  return made;
}

struct PolicyYard {
  ScalePolicy policy;
  ScaleLimits limits;
  PolicyYard() {
    limits.max_nodes = 4;
    limits.idle = seconds(60);
  }
  ScaleDecision decide(const std::vector<ScaleNode>& nodes, const std::vector<ScaleWant>& wants,
                       int second = 0) {
    return policy.decide(limits, nodes, wants, policy_time(second));
  }
};

}  // namespace

TEST_CASE("another node is tried where one is slow to come, and there are no more than the most") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[0].is = Is::coming;
  CHECK(yard.decide(nodes, {want("a")}).up.empty());
  nodes[0].slow = true;
  CHECK(yard.decide(nodes, {want("a")}).up == Names{"n2"});
  nodes[1].is = Is::coming;
  CHECK(yard.decide(nodes, {want("a")}).up.empty());
  yard.limits.max_nodes = 2;
  CHECK(yard.decide(nodes, {want("a"), want("b")}).up.empty());
}

TEST_CASE("nodes come up for what waits, as many as that needs and no more than the most") {
  PolicyYard yard;
  CHECK(yard.decide(all(Is::off), {}).up.empty());
  CHECK(yard.decide(all(Is::off), {want("a")}).up == Names{"n1"});
  CHECK(yard.decide(all(Is::off), {want("a"), want("b", 2)}).up == Names{"n1", "n2", "n3"});
  CHECK(yard.decide(all(Is::off), {want("a", 1, 1), want("b", 1, 1)}).up == Names{"n1"});
  const ScaleDecision many =
      yard.decide(all(Is::off, 9), {want("a"), want("b"), want("c"), want("d"), want("e")});
  CHECK(many.up == Names{"n1", "n2", "n3", "n4"});
  CHECK(many.wanted == 4);
  CHECK(many.words.at("a") == "waits for a node: n1 is starting");
  CHECK(many.words.at("e").find("no more than 4 may be on") != std::string::npos);
}

TEST_CASE("what is up, or comes, is reckoned with before another is started") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[2] = node("n3", Is::coming);
  nodes[3] = node("n4", Is::up);
  CHECK(yard.decide(nodes, {want("a"), want("b")}).up.empty());
  CHECK(yard.decide(nodes, {want("a"), want("b"), want("c")}).up == Names{"n1"});
  nodes[3] = busy("n4", 1);
  CHECK(yard.decide(nodes, {want("a", 1, 1), want("b", 1, 2)}).up.empty());
  CHECK(yard.decide(nodes, {want("a", 1, 2), want("b", 1, 2)}).up == Names{"n1"});
}

TEST_CASE("a node that is too small for a run is not brought up for it") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[2].cpus = 8;
  nodes[3].gpus = 1;
  CHECK(yard.decide(nodes, {want("a", 1, 4)}).up == Names{"n3"});
  ScaleWant gpu = want("g");
  gpu.each.gpus = 1;
  CHECK(yard.decide(nodes, {gpu}).up == Names{"n4"});
  nodes[1].memory_bytes = 64LL << 30;
  nodes[0].memory_bytes = nodes[2].memory_bytes = nodes[3].memory_bytes = 1LL << 30;
  ScaleWant large = want("m");
  large.each.memory_bytes = 32LL << 30;
  CHECK(yard.decide(nodes, {large}).up == Names{"n2"});
}

TEST_CASE("idle nodes go down after their time, the longest idle first, and the least stay") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes{node("n1", Is::up, 10), node("n2", Is::up, 0), busy("n3")};
  CHECK(yard.decide(nodes, {}, 59).down.empty());
  CHECK(yard.decide(nodes, {}, 59).again == policy_time(60));
  CHECK(yard.decide(nodes, {}, 60).down == Names{"n2"});
  CHECK(yard.decide(nodes, {}, 70).down == Names{"n2", "n1"});
  CHECK(yard.decide(nodes, {}, 70).wanted == 1);
  yard.limits.min_nodes = 2;
  CHECK(yard.decide(nodes, {}, 70).down == Names{"n2"});
  yard.limits.min_nodes = 3;
  CHECK(yard.decide(nodes, {}, 70).down.empty());
}

TEST_CASE("a node that a run waits for does not go down, however long it is idle") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes{node("n1", Is::up), node("n2", Is::coming)};
  yard.limits.hold = seconds(100'000);
  CHECK(yard.decide(nodes, {want("gang", 2)}, 5000).down.empty());
}

TEST_CASE("the least number of nodes is brought up and kept without any run") {
  PolicyYard yard;
  yard.limits.min_nodes = 2;
  CHECK(yard.decide(all(Is::off), {}).up == Names{"n1", "n2"});
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[1] = node("n2", Is::coming);
  CHECK(yard.decide(nodes, {}).up == Names{"n1"});
  nodes[0].not_before = policy_time(100);  // It did not come.
  const ScaleDecision decision = yard.decide(nodes, {});
  CHECK(decision.up == Names{"n3"});
  CHECK(decision.again == policy_time(100));
}

TEST_CASE("a paused compute brings nothing up and lets all that is idle go") {
  PolicyYard yard;
  yard.limits.min_nodes = 2;
  yard.limits.paused = true;
  const ScaleDecision off = yard.decide(all(Is::off), {want("a")});
  CHECK(off.up.empty());
  CHECK(off.words.at("a").find("paused") != std::string::npos);
  CHECK(yard.decide({node("n1", Is::up), node("n2", Is::up), busy("n3")}, {}, 60).down ==
        Names{"n1", "n2"});
}

TEST_CASE("a node that did not come is told, and another is started in its place") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::coming, 2);
  nodes.push_back(node("n3", Is::off));
  nodes[2].not_before = policy_time(30);
  nodes[2].trouble = "exit 1: no quota";
  for (int i = 4; i <= 5; ++i) nodes.push_back(node("n" + std::to_string(i), Is::off));
  const ScaleDecision decision = yard.decide(nodes, {want("gang", 3)});
  CHECK(decision.up == Names{"n4"});
  CHECK(decision.words.at("gang") ==
        "waits for 3 nodes: 3 starting (n1, n2, n4); n3 did not come: exit 1: no quota (tried "
        "again in 30 s); n4 is started instead");
  // When it is its turn again it is as good as others.
  CHECK(yard.decide(nodes, {want("gang", 3)}, 30).up == Names{"n3"});
}

TEST_CASE("for a run of several nodes none comes up unless all can") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[3] = node("n4", Is::unusable);
  nodes[3].trouble = "drained: bad disk";
  const ScaleDecision decision = yard.decide(nodes, {want("gang", 4), want("small")});
  CHECK(decision.up == Names{"n1"});
  CHECK(decision.words.at("gang").find("n4: drained: bad disk") != std::string::npos);
  // Those in use will be free some time.
  nodes[3] = busy("n4");
  CHECK(yard.decide(nodes, {want("gang", 4)}).up == Names{"n1", "n2", "n3"});
  yard.limits.max_nodes = 3;
  CHECK(yard.decide(nodes, {want("gang", 4)}).up.empty());
}

TEST_CASE("nodes are not held beyond the limit for a run that cannot start; it is tried later") {
  PolicyYard yard;
  yard.limits.hold = seconds(600);
  yard.limits.again = seconds(300);
  std::vector<ScaleNode> nodes = all(Is::up, 3);
  nodes.push_back(node("n4", Is::coming));
  const std::vector<ScaleWant> gang{want("gang", 4)};
  CHECK(yard.decide(nodes, gang, 0).down.empty());
  for (int t = 10; t < 600; t += 10) REQUIRE(yard.decide(nodes, gang, t).down.empty());
  const ScaleDecision let_go = yard.decide(nodes, gang, 600);
  CHECK(let_go.down == Names{"n1", "n2", "n3"});
  REQUIRE(let_go.told.size() == 1);
  CHECK(let_go.told[0] == "run gang: 3 of its 4 nodes were there in 10 min and were let go");
  CHECK(let_go.words.at("gang").find("tried again in 5 min") != std::string::npos);
  CHECK(yard.decide(all(Is::off), gang, 700).up.empty());
  CHECK(yard.decide(all(Is::off), gang, 900).up.size() == 4);
  CHECK(yard.decide(all(Is::off), gang, 900).told.empty());
}

TEST_CASE("a run that Slurm does not start on nodes that are there is tried on others") {
  PolicyYard yard;
  yard.limits.fit = seconds(30);
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[0] = node("n1", Is::up);
  const std::vector<ScaleWant> wants{want("odd")};
  for (int t = 0; t < 30; t += 5) REQUIRE(yard.decide(nodes, wants, t).up.empty());
  CHECK(yard.decide(nodes, wants, 30).up == Names{"n2"});
  // n1 is of no use to it, and is not kept for it.
  nodes[1] = node("n2", Is::up, 40);
  for (int t = 40; t < 70; t += 5) CHECK(yard.decide(nodes, wants, t).up.empty());
  CHECK(yard.decide(nodes, wants, 69).down == Names{"n1"});
  // When all have been tried in vain, it is given up for a while.
  yard.limits.max_nodes = 2;
  const ScaleDecision last = yard.decide(nodes, wants, 70);
  CHECK(last.up.empty());
  REQUIRE(last.told.size() == 1);
  CHECK(last.told[0].find("Slurm did not start it") != std::string::npos);
}

TEST_CASE("a Slurm that did not answer for a while makes no node unfit") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[0] = node("n1", Is::up);
  CHECK(yard.decide(nodes, {want("a")}, 0).up.empty());
  CHECK(yard.decide(nodes, {want("a")}, 300).up.empty());
}

TEST_CASE("a node that leaves is called back if its program has not begun, else it goes") {
  PolicyYard yard;
  std::vector<ScaleNode> nodes = all(Is::off);
  nodes[2] = node("n3", Is::leaving);
  CHECK(yard.decide(nodes, {}).down == Names{"n3"});
  const ScaleDecision back = yard.decide(nodes, {want("a")});
  CHECK(back.up == Names{"n3"});
  CHECK(back.down.empty());
  nodes[2].at_work = true;
  CHECK(yard.decide(nodes, {}).down.empty());
  CHECK(yard.decide(nodes, {want("a")}).up == Names{"n1"});
  // It is on until it is off.
  yard.limits.max_nodes = 1;
  CHECK(yard.decide(nodes, {want("a")}).up.empty());
  // One that could not be taken down is tried again, in its time.
  nodes[2].at_work = false;
  nodes[2].not_before = policy_time(30);
  CHECK(yard.decide(nodes, {}).down.empty());
  CHECK(yard.decide(nodes, {}, 30).down == Names{"n3"});
}

TEST_CASE("ten thousand nodes in use and a long line cost little") {
  PolicyYard yard;
  yard.limits.max_nodes = 10'000;
  std::vector<ScaleNode> nodes;
  for (int i = 0; i < 10'000; ++i) nodes.push_back(busy("n" + std::to_string(i)));
  std::vector<ScaleWant> wants;
  for (int i = 0; i < 2000; ++i) wants.push_back(want("r" + std::to_string(i), 1, 1 + i % 2));
  MonotoneClock clock;
  const SteadyTime begun = clock.steady();
  CHECK(yard.decide(nodes, wants).up.empty());
  // A search for each would take minutes here.
  CHECK(clock.steady() - begun < seconds(5));
}
