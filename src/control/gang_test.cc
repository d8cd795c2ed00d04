// Runs on several nodes: what their supervisors tell makes one run.
#include <thread>

#include "control/yard.h"

using namespace trainyard;
using namespace trainyard::control;

namespace {

// A cluster with a queue of its own, and one run of `nodes` nodes that is placed there.
struct Cluster : Yard {
  explicit Cluster(int nodes) : Yard({.nodes = 8, .window = 10}), count(nodes) {
    RunSpec wide = spec();
    wide.nodes = nodes;
    submit("wide", wide);
    control->tick();
    REQUIRE(status("wide") == RunStatus::provisioning);
  }
  int count;
  std::vector<int64_t> seqs = std::vector<int64_t>(8, 0);

  Result<Orders> tell(int node, Report report, int attempt = 1) {
    report.seq = ++seqs[static_cast<size_t>(node)];
    return control->report({{RunId{"wide"}, attempt}, node}, {&report, 1});
  }
  Result<Orders> tell(int node, ReportKind kind) {
    Report report{.kind = kind};
    report.host = {"n" + std::to_string(node), "10.0.0.1", 4000};
    report.node = report.host.name;
    return tell(node, report);
  }
  void tell_all(ReportKind kind) {
    for (int node = 0; node < count; ++node) REQUIRE(tell(node, kind));
  }
  void run_all() {
    for (const ReportKind kind :
         {ReportKind::preparing, ReportKind::ready, ReportKind::starting, ReportKind::running}) {
      tell_all(kind);
    }
    REQUIRE(status("wide") == RunStatus::running);
  }
  Result<Orders> end(int node, AttemptEnd how) {
    Report report{.kind = ReportKind::ended};
    report.end = std::move(how);
    report.end.ranks_started = true;
    return tell(node, report);
  }
};

Report failed(int rank, int code, int64_t age_us = 0) {
  Report report{.age_us = age_us, .kind = ReportKind::rank_failed};
  report.exit = {rank, code, 0};
  return report;
}

}  // namespace

TEST_CASE("a run of two nodes goes on when both are ready, and is over when both have ended") {
  Cluster yard(2);
  REQUIRE(yard.tell(1, ReportKind::preparing));
  CHECK(yard.status("wide") == RunStatus::preparing);
  CHECK_FALSE(yard.tell(1, ReportKind::ready)->go);
  CHECK(yard.run("wide").reason == "1 of 2 nodes are ready");
  REQUIRE(yard.tell(0, ReportKind::preparing));
  yard.changed.with([](auto& all) { all.clear(); });
  const Result<Orders> go = yard.tell(0, ReportKind::ready);
  REQUIRE(go);
  CHECK(go->go);
  REQUIRE(go->hosts.size() == 2);
  CHECK(go->hosts[1].name == "n1");
  CHECK(yard.changed.with([](auto& all) { return all.count("wide"); }) == 1);  // Node 1 hears it.
  CHECK(yard.control->orders({{RunId{"wide"}, 1}, 1})->go);

  REQUIRE(yard.tell(0, ReportKind::starting));
  REQUIRE(yard.tell(0, ReportKind::running));
  CHECK(yard.status("wide") == RunStatus::preparing);
  REQUIRE(yard.tell(1, ReportKind::starting));
  CHECK(yard.status("wide") == RunStatus::starting);
  REQUIRE(yard.tell(1, ReportKind::running));
  CHECK(yard.status("wide") == RunStatus::running);
  CHECK(yard.run("wide").attempts.front().node == "n0,n1");

  REQUIRE(yard.end(0, {.cpu_seconds = 1}));
  CHECK(yard.status("wide") == RunStatus::running);
  REQUIRE(yard.end(1, {.cpu_seconds = 2}));
  const Run run = yard.run("wide");
  CHECK(run.life.status == RunStatus::completed);
  CHECK(run.attempts.front().cpu_seconds == 3);
  CHECK(yard.merges == 0);
}

TEST_CASE("a report of a node told twice counts once, and a node that is not there is refused") {
  Cluster yard(2);
  yard.run_all();
  Report again{.seq = 2, .kind = ReportKind::ready};
  const auto orders = yard.control->report({{RunId{"wide"}, 1}, 1}, {&again, 1});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 4);
  CHECK(orders->hosts[1].name == "n1");
  CHECK(kind_of(yard.control->report({{RunId{"wide"}, 1}, 2}, {&again, 1})) == ErrorKind::invalid);
}

TEST_CASE("the first rank to fail ends the run with its code, whoever tells it first") {
  Cluster yard(4);
  yard.run_all();
  yard.clock.advance(seconds(10));
  CHECK(yard.tell(0, failed(0, 1, 1'000'000))->stop.empty());
  const Result<Orders> late = yard.tell(2, failed(5, 42, 3'000'000));
  REQUIRE(late);
  CHECK(late->stop == "rank 0 on node n0 exited with code 1");
  CHECK(yard.control->orders({{RunId{"wide"}, 1}, 1})->stop.find("rank 0") == 0);
  REQUIRE(yard.end(0, {.exit_code = 1, .rank = 0, .error = "rank 0 exited with code 1"}));
  REQUIRE(yard.end(1, {.cause = EndCause::peer_failed, .exit_code = 1}));
  REQUIRE(yard.end(2, {.exit_code = 42, .rank = 5, .error = "rank 5 exited with code 42"}));
  CHECK(yard.status("wide") == RunStatus::running);
  REQUIRE(yard.end(3, {.cause = EndCause::peer_failed, .exit_code = 1}));
  const Run run = yard.run("wide");
  CHECK(run.life.status == RunStatus::failed);
  CHECK(run.life.exit_code == 42);
  CHECK(run.life.error == "rank 5 exited with code 42");
}

TEST_CASE("outputs that differ are merged once, before the end is written down") {
  Cluster yard(3);
  yard.run_all();
  REQUIRE(yard.end(0, {.outputs = "aa"}));
  REQUIRE(yard.end(2, {.outputs = "bb"}));
  CHECK(yard.merges == 0);
  REQUIRE(yard.end(1, {}));
  CHECK(yard.merges == 1);
  const Run run = yard.run("wide");
  CHECK(run.outputs == "0aa2bb");
  REQUIRE(run.attempts.front().end);
  CHECK(run.attempts.front().end->warnings == Words{"1 output differs"});
}

TEST_CASE("what a gang's attempt began with is known when its outputs are merged") {
  Cluster yard(2);
  yard.run_all();
  REQUIRE(yard.end(0, {.cause = EndCause::evicted, .outputs = "aa"}));
  REQUIRE(yard.end(1, {.cause = EndCause::evicted, .outputs = "aa"}));
  yard.control->tick();
  REQUIRE(yard.run("wide").life.attempt == 2);
  yard.seqs.assign(8, 0);
  for (const int node : {0, 1}) REQUIRE(yard.tell(node, phase(0, ReportKind::preparing), 2));
  for (const char* tree : {"bb", "cc"}) {
    Report last{.kind = ReportKind::ended};
    last.end = {.ranks_started = true, .outputs = tree};
    REQUIRE(yard.tell(tree[0] - 'b', last, 2));
  }
  CHECK(yard.run("wide").outputs == "aa0bb1cc");
}

TEST_CASE("outputs that are the same on all nodes need no merging") {
  Cluster yard(2);
  yard.run_all();
  REQUIRE(yard.end(0, {.outputs = "aa"}));
  REQUIRE(yard.end(1, {.outputs = "aa"}));
  CHECK(yard.merges == 0);
  CHECK(yard.run("wide").outputs == "aa");
}

TEST_CASE("the last two nodes may end at the same time") {
  for (int round = 0; round < 20; ++round) {
    Cluster yard(2);
    yard.run_all();
    std::jthread other([&] { CHECK(yard.end(0, {.outputs = "aa"})); });
    CHECK(yard.end(1, {.outputs = "bb"}));
    other.join();
    CHECK(yard.status("wide") == RunStatus::completed);
    CHECK(yard.run("wide").outputs == "0aa1bb");
  }
}

TEST_CASE("one silent node among those that speak is noticed") {
  Cluster yard(2);
  yard.run_all();
  for (int i = 0; i < 70; ++i) {
    yard.clock.advance(seconds(10));
    REQUIRE(yard.control->report({{RunId{"wide"}, 1}, 0}, {}));
    yard.control->tick();
    if (yard.status("wide") != RunStatus::running) break;
  }
  const Run run = yard.run("wide");
  CHECK(run.life.status == RunStatus::failed);
  CHECK(run.reason.find("was not heard of for 60") != std::string::npos);
}

TEST_CASE("a gang lost before all were ready is made again; its node may not speak for the next") {
  Cluster yard(2);
  yard.tell_all(ReportKind::preparing);
  REQUIRE(yard.tell(0, ReportKind::ready));
  yard.engine.tell({RunId{"wide"}, 1}, {.why = "the node went down", .evicted = true});
  yard.control->tick();
  CHECK(yard.run("wide").life.attempt == 2);
  CHECK(kind_of(yard.tell(1, ReportKind::ready)) == ErrorKind::conflict);
  // The next attempt's nodes begin anew.
  Report ready{.seq = 1, .kind = ReportKind::ready};
  const auto orders = yard.control->report({{RunId{"wide"}, 2}, 0}, {&ready, 1});
  REQUIRE(orders);
  CHECK_FALSE(orders->go);
}

TEST_CASE("a server that comes back knows what the nodes told") {
  Cluster yard(2);
  yard.tell_all(ReportKind::preparing);
  REQUIRE(yard.tell(0, ReportKind::ready));
  yard.restart();
  const Result<Orders> go = yard.tell(1, ReportKind::ready);
  REQUIRE(go);
  CHECK(go->go);
  CHECK(go->hosts[0].name == "n0");
}

TEST_CASE("a cancel before all nodes are there does not wait for those that are not") {
  Cluster yard(3);
  for (const int node : {0, 2}) {
    REQUIRE(yard.tell(node, ReportKind::preparing));
    REQUIRE(yard.tell(node, ReportKind::ready));
  }
  REQUIRE(yard.control->cancel(RunId{"wide"}, "me"));
  CHECK(yard.engine.live().empty());  // Who cannot hear it is taken away.
  const auto give_up = [&](int node) {
    Report report{.kind = ReportKind::ended};
    report.end.cause = EndCause::canceled;
    report.end.exit_code = 1;
    report.end.error = "canceled before it was started";
    return yard.tell(node, report);
  };
  REQUIRE(give_up(0));
  CHECK(yard.status("wide") == RunStatus::cancel_requested);
  REQUIRE(give_up(2));
  CHECK(yard.status("wide") == RunStatus::canceled);
  CHECK_FALSE(yard.tell(1, ReportKind::preparing));  // It comes too late.
}

TEST_CASE("nodes whose workers have ended hear when those of the others have, too") {
  Cluster yard(2);
  yard.run_all();
  const Result<Orders> first = yard.tell(0, ReportKind::finalizing);
  REQUIRE(first);
  CHECK_FALSE(first->done);
  CHECK(yard.status("wide") == RunStatus::running);
  AttemptEnd well;
  REQUIRE(yard.end(1, well));
  CHECK(yard.control->orders({{RunId{"wide"}, 1}, 0})->done);
  REQUIRE(yard.end(0, well));
  CHECK(yard.status("wide") == RunStatus::completed);
}
