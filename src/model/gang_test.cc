#include "model/gang.h"

#include <doctest/doctest.h>

using namespace trainyard;

namespace {

std::vector<NodePart> parts(int count) {
  std::vector<NodePart> made(static_cast<size_t>(count));
  for (int node = 0; node < count; ++node) {
    NodePart& part = made[static_cast<size_t>(node)];
    part.node = node;
    part.host = {"n" + std::to_string(node), "10.0.0." + std::to_string(node), 4000 + node};
  }
  return made;
}

AttemptEnd exited(int rank, int code) {
  AttemptEnd end;
  end.ranks_started = true;
  end.exit_code = code;
  end.ranks = {{rank, code, 0}};
  if (code != 0) {
    end.rank = rank;
    end.error = "rank " + std::to_string(rank) + " exited with code " + std::to_string(code);
  }
  return end;
}

AttemptEnd stopped(int rank, EndCause cause, std::string error = {}) {
  AttemptEnd end = exited(rank, 143);
  end.cause = cause;
  end.rank = -1;
  end.error = std::move(error);
  return end;
}

}  // namespace

TEST_CASE("an attempt is as far as the last of its nodes, and prepares with the first") {
  std::vector<NodePart> nodes = parts(3);
  CHECK(phase_of(nodes) == std::nullopt);
  nodes[1].phase = ReportKind::ready;
  CHECK(phase_of(nodes) == ReportKind::preparing);
  nodes[0].phase = ReportKind::preparing;
  nodes[2].phase = ReportKind::ready;
  CHECK(phase_of(nodes) == ReportKind::preparing);
  CHECK(barrier_text(nodes) == "2 of 3 nodes are ready");
  nodes[0].phase = ReportKind::ready;
  CHECK(phase_of(nodes) == ReportKind::ready);
  CHECK(barrier_text(nodes).empty());
  for (NodePart& part : nodes) part.phase = ReportKind::running;
  CHECK(phase_of(nodes) == ReportKind::running);
  nodes[1].end = exited(1, 0);
  CHECK(phase_of(nodes) == ReportKind::running);
  nodes[0].phase = nodes[2].phase = ReportKind::finalizing;
  CHECK(phase_of(nodes) == ReportKind::finalizing);
}

TEST_CASE("nobody goes before the last node is ready, and then all know all hosts") {
  std::vector<NodePart> nodes = parts(2);
  nodes[0].phase = ReportKind::ready;
  CHECK_FALSE(orders_of(nodes, 0).go);
  CHECK(orders_of(nodes, 0).hosts.empty());
  nodes[1].phase = ReportKind::ready;
  const Orders orders = orders_of(nodes, 0);
  CHECK(orders.go);
  CHECK(orders.hosts == std::vector{nodes[0].host, nodes[1].host});
  CHECK(orders.stop.empty());
  // The word holds for a supervisor that asks again when others are further.
  nodes[1].phase = ReportKind::running;
  CHECK(orders_of(nodes, 0).go);
}

TEST_CASE("one that failed stops the others and not itself") {
  std::vector<NodePart> nodes = parts(3);
  for (NodePart& part : nodes) part.phase = ReportKind::running;
  nodes[2].failed = RankExit{5, 137, 9};
  CHECK(orders_of(nodes, 0).stop == "rank 5 on node n2 was killed by signal 9");
  CHECK(orders_of(nodes, 2).stop.empty());
  nodes[2].failed.reset();
  AttemptEnd unprepared;
  unprepared.cause = EndCause::prepare_failed;
  unprepared.error = "code: no space";
  nodes[1].end = unprepared;
  CHECK(orders_of(nodes, 0).stop == "node n1: code: no space");
  nodes[1].end = exited(1, 0);
  CHECK(orders_of(nodes, 0).stop.empty());
  nodes[1].end = stopped(1, EndCause::peer_failed);
  CHECK(orders_of(nodes, 0).stop.empty());
}

TEST_CASE("the first rank to fail is the run's failure") {
  std::vector<NodePart> nodes = parts(4);
  nodes[0].end = exited(0, 1);  // Its peer had vanished.
  nodes[0].failed = RankExit{0, 1, 0};
  nodes[0].failed_at = WallTime(seconds(11));
  nodes[1].end = stopped(1, EndCause::peer_failed);
  nodes[2].end = exited(2, 42);
  nodes[2].failed = RankExit{2, 42, 0};
  nodes[2].failed_at = WallTime(seconds(10));
  nodes[3].end = exited(3, 0);
  for (NodePart& part : nodes) part.end->cpu_seconds = 2;
  nodes[0].end->warnings = {"a"};
  nodes[3].end->warnings = {"a", "b"};
  const AttemptEnd end = combine(nodes);
  CHECK(end.warnings == std::vector<std::string>{"a", "b"});
  CHECK(end.cause == EndCause::exited);
  CHECK(end.exit_code == 42);
  CHECK(end.rank == 2);
  CHECK(end.error == "rank 2 exited with code 42");
  CHECK(end.cpu_seconds == 8);
  CHECK(end.ranks_started);
  REQUIRE(end.ranks.size() == 4);
  CHECK(end.ranks[1] == RankExit{1, 143, 0});
}

TEST_CASE("a node that was taken away makes an eviction of it, whatever the ranks say") {
  std::vector<NodePart> nodes = parts(2);
  nodes[0].end = exited(0, 1);
  nodes[0].failed = RankExit{0, 1, 0};
  nodes[1].end = stopped(1, EndCause::evicted, "its node was taken away");
  CHECK(combine(nodes).cause == EndCause::evicted);
  nodes[0].end = stopped(0, EndCause::canceled, "canceled");
  CHECK(combine(nodes).cause == EndCause::canceled);
}

TEST_CASE("all well is well, and nodes that stopped for nobody are lost") {
  std::vector<NodePart> nodes = parts(2);
  nodes[0].end = exited(0, 0);
  nodes[1].end = exited(1, 0);
  CHECK(combine(nodes).exit_code == 0);
  CHECK(combine(nodes).cause == EndCause::exited);
  nodes[1].end = stopped(1, EndCause::peer_failed);
  CHECK(combine(nodes).cause == EndCause::lost);
  CHECK(combine(nodes).exit_code == 1);
}

TEST_CASE("a node that hears late goes too, also when another has ended by then") {
  std::vector<NodePart> nodes = parts(2);
  for (NodePart& part : nodes) part.phase = ReportKind::ready;
  nodes[0].phase = ReportKind::ended;
  nodes[0].end = exited(0, 0);
  CHECK(orders_of(nodes, 1).go);
  CHECK(orders_of(nodes, 1).hosts.size() == 2);
  CHECK(orders_of(nodes, 1).stop.empty());
  nodes[0].end->ranks_started = false;
  CHECK_FALSE(orders_of(nodes, 1).go);
}

TEST_CASE("nodes that were not heard of do not hold up an attempt that the others gave up") {
  std::vector<NodePart> nodes = parts(3);
  nodes[0].phase = nodes[2].phase = ReportKind::ready;
  nodes[0].end = stopped(0, EndCause::canceled, "canceled before it was started");
  nodes[0].end->ranks_started = false;
  CHECK_FALSE(is_over(nodes));
  nodes[2].end = nodes[0].end;
  CHECK(is_over(nodes));
  CHECK(combine(nodes).cause == EndCause::canceled);
  CHECK_FALSE(combine(nodes).ranks_started);
  nodes[1].phase = ReportKind::preparing;
  CHECK_FALSE(is_over(nodes));
}

TEST_CASE("all is done when no node has a worker left, and not when one has failed") {
  std::vector<NodePart> nodes = parts(3);
  for (NodePart& part : nodes) part.phase = ReportKind::running;
  nodes[0].phase = ReportKind::finalizing;  // Its parameter servers serve on.
  nodes[1].end = exited(1, 0);
  CHECK_FALSE(orders_of(nodes, 0).done);
  nodes[2].phase = ReportKind::finalizing;
  CHECK(orders_of(nodes, 0).done);
  nodes[2].failed = RankExit{2, 1, 0};
  CHECK_FALSE(orders_of(nodes, 0).done);
  nodes[2].failed.reset();
  nodes[2].end = stopped(2, EndCause::peer_failed);
  CHECK_FALSE(orders_of(nodes, 0).done);
}
