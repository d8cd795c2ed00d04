#include "engine/slurm/scale_nodes.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;
using Is = ScaleNode::Is;
using Kind = SortedNode::Kind;
using Names = std::vector<std::string>;

namespace {

SteadyTime at(int second) { return SteadyTime(seconds(1'000'000 + second)); }

// "n1 down trainyard:srv1:off", a '*' behind the state for one that does not answer.
Node node(std::string name, std::string state, std::string reason = {}) {
  Node made;
  made.name = std::move(name);
  made.answers = !state.ends_with('*');
  if (!made.answers) state.pop_back();
  made.state = std::move(state);
  made.reason = std::move(reason);
  made.cpus = made.cpus_free = 2;
  return made;
}

struct NodesYard {
  ScaleNodes nodes{"srv1", {.come = seconds(60), .retry = seconds(30)}};
  void saw(const Node& one, int second) { nodes.saw({one}, {}, at(second), at(second)); }
  ScaleNode look(const Node& one, int second) {
    saw(one, second);
    return nodes.view({}).at(0);
  }
  NodeState state() { return nodes.states({}).at(0); }
};

const std::string kOff = "trainyard:srv1:off";
const std::string kLeaves = "trainyard:srv1:leaves";

}  // namespace

TEST_CASE("a node is known by Slurm's state and by the reason that we gave it") {
  const auto kind = [](const std::string& state, const std::string& reason = {}) {
    return sort_node(node("n1", state, reason), "srv1").kind;
  };
  CHECK(kind("idle") == Kind::idle);
  CHECK(kind("idle*") == Kind::silent);
  CHECK(kind("unknown") == Kind::silent);
  CHECK(kind("down*", "Not responding") == Kind::silent);
  CHECK(kind("down") == Kind::silent);
  for (const char* used : {"mixed", "allocated", "completing", "planned", "allocated*"}) {
    CAPTURE(used);
    CHECK(kind(used) == Kind::busy);
  }
  CHECK(kind("down", kOff) == Kind::off);
  CHECK(kind("drained", kOff) == Kind::off);
  CHECK(kind("drained", kLeaves) == Kind::leaving);
  CHECK(kind("draining", kLeaves) == Kind::called);
  CHECK(kind("down", "bad disk") == Kind::unusable);
  CHECK(kind("drained", "bad disk") == Kind::unusable);
  CHECK(kind("drained") == Kind::unusable);
  CHECK(kind("draining", "bad disk") == Kind::unusable);
  CHECK(kind("drained", "trainyard:another:off") == Kind::unusable);
  CHECK(kind("reserved") == Kind::unusable);
  CHECK(kind("maint") == Kind::unusable);
  Node cloud = node("n1", "idle");
  cloud.powered_off = true;
  CHECK(sort_node(cloud, "srv1").kind == Kind::unusable);
}

TEST_CASE("a node whose program takes long is slow until that has ended") {
  NodesYard yard;
  yard.saw(node("n1", "down", kOff), 0);
  yard.nodes.begin_up("n1", at(1));
  yard.saw(node("n1", "down", kOff), 2);
  CHECK_FALSE(yard.nodes.view(at(120))[0].slow);
  CHECK(yard.nodes.view(at(121))[0].slow);
  CHECK(yard.nodes.states(at(121))[0].reason == "its program has run for 2:00");
  yard.nodes.ended_up("n1", {}, at(122));
  CHECK_FALSE(yard.nodes.view(at(122))[0].slow);
}

TEST_CASE("a node comes up when its program has ended and Slurm shows it") {
  NodesYard yard;
  CHECK(yard.look(node("n1", "down", kOff), 0).is == Is::off);
  CHECK(yard.state().is == NodeState::Is::off);
  CHECK_FALSE(yard.nodes.anything_on());
  yard.nodes.begin_up("n1", at(1));
  CHECK(yard.nodes.anything_on());
  CHECK(yard.look(node("n1", "down", kOff), 2).is == Is::coming);
  CHECK(yard.nodes.view({})[0].at_work);
  CHECK(yard.state().is == NodeState::Is::starting);
  yard.nodes.ended_up("n1", {}, at(10));
  CHECK(yard.nodes.take_resumes(at(10)).empty());  // It was told a moment ago.
  CHECK(yard.look(node("n1", "down", kOff), 14).is == Is::coming);
  CHECK(yard.nodes.take_resumes(at(14)) == Names{"n1"});
  CHECK(yard.look(node("n1", "idle*"), 15).is == Is::coming);
  CHECK(yard.nodes.take_resumes(at(20)).empty());  // Slurm waits for it.
  const ScaleNode up = yard.look(node("n1", "idle"), 21);
  CHECK(up.is == Is::up);
  CHECK_FALSE(up.at_work);
  CHECK_FALSE(up.busy);
  CHECK(up.since == at(21));
  CHECK(up.cpus_free == 2);
  CHECK(yard.nodes.take_told().empty());
}

TEST_CASE("a node that does not come is told, taken down, and waited for ever longer") {
  NodesYard yard;
  yard.saw(node("n1", "down"), 0);
  yard.nodes.begin_up("n1", at(0));
  yard.nodes.ended_up("n1", fail(ErrorKind::unavailable, "exit 1: no quota"), at(5));
  CHECK(yard.nodes.take_told() == Names{"node n1 did not come: exit 1: no quota"});
  CHECK(yard.nodes.take_lost() == Names{"n1"});
  CHECK(yard.nodes.view({})[0].is == Is::off);
  CHECK(yard.nodes.view({})[0].not_before == at(35));
  yard.nodes.begin_down("n1", at(5));
  CHECK(yard.nodes.take_lost().empty());
  CHECK(yard.nodes.view({})[0].is == Is::off);  // Not counted.
  CHECK(yard.nodes.view({})[0].at_work);
  yard.nodes.ended_down("n1", ScaleNodes::Left::yes, at(6));
  const ScaleNode off = yard.look(node("n1", "drained", kOff), 7);
  CHECK_FALSE(off.at_work);
  CHECK(off.trouble == "exit 1: no quota");
  CHECK(yard.state().is == NodeState::Is::unusable);
  CHECK(yard.state().reason == "did not come: exit 1: no quota");
  // Again, and Slurm never sees it.
  yard.nodes.begin_up("n1", at(40));
  yard.nodes.ended_up("n1", {}, at(41));
  CHECK(yard.look(node("n1", "idle*"), 100).is == Is::coming);
  CHECK(yard.look(node("n1", "idle*"), 101).is == Is::off);
  CHECK(yard.nodes.view({})[0].not_before == at(161));
  REQUIRE(yard.nodes.take_told().size() == 1);
  // It comes all the same when its time has come, and all is forgotten.
  yard.nodes.begin_down("n1", at(101));
  yard.nodes.ended_down("n1", ScaleNodes::Left::yes, at(102));
  yard.nodes.begin_up("n1", at(161));
  yard.nodes.ended_up("n1", {}, at(162));
  CHECK(yard.look(node("n1", "idle"), 163).trouble.empty());
  CHECK(yard.nodes.view({})[0].not_before == SteadyTime{});
}

TEST_CASE("since when a node is idle is when it was last in use") {
  NodesYard yard;
  CHECK(yard.look(node("n1", "idle"), 0).since == at(0));
  CHECK(yard.look(node("n1", "idle"), 10).since == at(0));
  CHECK(yard.look(node("n1", "mixed"), 20).busy);
  CHECK(yard.state().is == NodeState::Is::running);
  CHECK(yard.look(node("n1", "allocated"), 30).since == at(30));
  CHECK(yard.look(node("n1", "idle"), 31).since == at(30));
}

TEST_CASE("one missed answer makes no node a lost one, several do") {
  NodesYard yard;
  yard.saw(node("n1", "idle"), 0);
  CHECK(yard.look(node("n1", "idle*"), 5).is == Is::up);
  CHECK(yard.nodes.view({})[0].busy);
  CHECK(yard.look(node("n1", "idle*"), 12).is == Is::off);
}

TEST_CASE("a node that was up and stays away is taken down, once, and can come again") {
  NodesYard yard;
  yard.saw(node("n1", "idle"), 0);
  yard.saw(node("n1", "idle*"), 250);  // Slurm still hopes.
  CHECK(yard.nodes.take_lost().empty());
  yard.saw(node("n1", "down*", "Not responding"), 299);
  CHECK(yard.nodes.take_lost().empty());
  yard.saw(node("n1", "down*", "Not responding"), 300);
  CHECK(yard.nodes.take_lost() == Names{"n1"});
  CHECK(yard.nodes.take_told() == Names{"node n1 does not answer and is taken down"});
  CHECK(yard.nodes.view({})[0].is == Is::off);
  yard.nodes.begin_down("n1", at(300));
  yard.nodes.ended_down("n1", ScaleNodes::Left::yes, at(301));
  const ScaleNode off = yard.look(node("n1", "drained", kOff), 302);
  CHECK_FALSE(off.at_work);
  CHECK(off.not_before == SteadyTime{});
  CHECK(off.trouble.empty());
  CHECK(yard.nodes.take_lost().empty());
  // One that was never seen up is somebody else's business.
  NodesYard other;
  other.saw(node("n1", "down*", "Not responding"), 0);
  other.saw(node("n1", "down*", "Not responding"), 1000);
  CHECK(other.nodes.take_lost().empty());
}

TEST_CASE("a job that was quicker than a drain keeps its node") {
  NodesYard yard;
  yard.saw(node("n1", "idle"), 0);
  yard.nodes.begin_down("n1", at(1));
  CHECK(yard.look(node("n1", "draining", kLeaves), 2).is == Is::leaving);
  CHECK(yard.nodes.take_resumes(at(2)).empty());  // Whoever drained it looks.
  yard.nodes.ended_down("n1", ScaleNodes::Left::in_use, at(3));
  CHECK(yard.look(node("n1", "mixed"), 4).busy);
  // A server that was killed in between finds it so.
  NodesYard next;
  const ScaleNode called = next.look(node("n1", "draining", kLeaves), 0);
  CHECK(called.is == Is::up);
  CHECK(called.busy);
  CHECK(next.nodes.take_resumes(at(0)) == Names{"n1"});
}

TEST_CASE("a node that could not be taken down is tried again later, and can be called back") {
  NodesYard yard;
  yard.saw(node("n1", "idle"), 0);
  yard.nodes.begin_down("n1", at(1));
  yard.nodes.ended_down("n1", fail(ErrorKind::unavailable, "exit 3"), at(2));
  const ScaleNode left = yard.look(node("n1", "drained", kLeaves), 3);
  CHECK(left.is == Is::leaving);
  CHECK_FALSE(left.at_work);
  CHECK(left.not_before == at(32));
  CHECK(yard.state().reason == "could not be taken down: exit 3");
}

TEST_CASE("what Slurm showed before we changed a node does not count") {
  NodesYard yard;
  yard.saw(node("n1", "idle"), 0);
  yard.nodes.begin_down("n1", at(1));
  yard.nodes.ended_down("n1", ScaleNodes::Left::yes, at(3));
  yard.nodes.saw({node("n1", "drained", kLeaves)}, {}, at(2), at(4));
  CHECK(yard.nodes.view({})[0].is == Is::off);
}

TEST_CASE("nodes of another compute are used and not brought up or down") {
  NodesYard yard;
  const std::map<std::string, std::string> others{{"n1", "lab"}, {"n2", "lab"}};
  yard.nodes.saw({node("n1", "idle"), node("n2", "down", kOff)}, others, at(0), at(0));
  CHECK(yard.nodes.view({})[0].is == Is::up);
  CHECK(yard.nodes.view({})[0].busy);
  CHECK(yard.nodes.view({})[1].is == Is::unusable);
  CHECK(yard.nodes.view({})[1].trouble.find("lab") != std::string::npos);
}

TEST_CASE("nodes that nobody brings up are shown as Slurm has them") {
  Node idle = node("n1", "idle");
  idle.partition = "gpu";
  Node down = node("n2", "down", "bad disk");
  down.partition = "gpu";
  Node other = node("n3", "idle");
  other.default_partition = true;
  const NodesSeen seen = nodes_as_seen({idle, down, other}, "gpu");
  REQUIRE(seen.nodes.size() == 2);
  CHECK(seen.wanted == 1);
  CHECK(seen.nodes[0].is == NodeState::Is::idle);
  CHECK(seen.nodes[1].is == NodeState::Is::unusable);
  CHECK(seen.nodes[1].reason == "down: bad disk");
  CHECK(nodes_as_seen({idle, down, other}, "").nodes.size() == 1);
}
