// What the book knows of nodes.
#include <doctest/doctest.h>

#include "engine/slurm/book.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;
using Names = std::vector<std::string>;

namespace {

struct NodesDesk {
  Book book;
  SteadyTime now{seconds(1000)};
  std::vector<Job> jobs;

  explicit NodesDesk(Patience patience = {}) : book("srv1/3", patience) {}

  static AttemptId id(const std::string& run) { return {RunId{run}, 1}; }
  void place(const std::string& run, int nodes = 1, int cpus = 1) {
    Assignment made;
    made.run = run;
    made.attempt = 1;
    made.spec.nodes = nodes;
    made.spec.resources.cpus = cpus;
    book.place(made, now);
  }
  void show(const std::string& run, std::string state, std::string reason = "Resources",
            std::string on = {}) {
    Job job;
    job.number = static_cast<int64_t>(jobs.size()) + 1;
    job.state = std::move(state);
    job.reason = std::move(reason);
    job.partition = "spot";
    job.nodes = 4;
    job.node_list = std::move(on);
    job.comment = comment_of("srv1/3", id(run));
    jobs.push_back(job);
  }
  void submit() {
    const std::optional<Assignment> taken = book.take_submission(now);
    REQUIRE(taken);
    book.submitted(taken->id(), 1, now);
  }
  void look() { book.looked(jobs, now, now); }
  Names wants() {
    Names names;
    for (const ScaleWant& want : book.wants()) names.push_back(want.id);
    return names;
  }
};

}  // namespace

TEST_CASE("nodes are wanted from when a run is placed until Slurm has started it") {
  NodesDesk desk;
  desk.place("a", 4, 2);
  REQUIRE(desk.book.wants().size() == 1);
  CHECK(desk.book.wants()[0].id == "a.1");
  CHECK(desk.book.wants()[0].nodes == 4);
  CHECK(desk.book.wants()[0].each.cpus == 2);
  const std::optional<Assignment> taken = desk.book.take_submission(desk.now);
  CHECK(desk.wants() == Names{"a.1"});
  desk.book.submitted(taken->id(), 1, desk.now);
  CHECK(desk.wants() == Names{"a.1"});
  desk.show("a", "PENDING", "ReqNodeNotAvail, UnavailableNodes:n[1-4]");
  desk.look();
  REQUIRE(desk.wants() == Names{"a.1"});
  CHECK(desk.book.wants()[0].each.cpus == 2);
  desk.jobs[0].state = "RUNNING";
  desk.jobs[0].node_list = "n[1-3],n7";
  desk.look();
  CHECK(desk.wants().empty());
  const auto runs = desk.book.runs_on_nodes();
  REQUIRE(runs.size() == 4);
  CHECK(runs.at("n7") == std::vector<RunId>{RunId{"a"}});
}

TEST_CASE("no node is wanted for what waits for something else, or is no longer wanted") {
  NodesDesk desk;
  for (const char* run : {"a", "b", "c"}) desk.place(run);
  for (int i = 0; i < 3; ++i) desk.submit();
  desk.show("a", "PENDING", "QOSMaxJobsPerUserLimit");
  desk.show("b", "PENDING");
  desk.show("c", "PENDING");
  desk.look();
  CHECK(desk.wants() == Names{"b.1", "c.1"});
  desk.book.kill(NodesDesk::id("b"), desk.now);
  CHECK(desk.wants() == Names{"c.1"});
  desk.book.release(NodesDesk::id("c"), desk.now);
  CHECK(desk.wants().empty());
}

TEST_CASE("nodes are wanted in Slurm's order, and what it has not seen comes last") {
  NodesDesk desk;
  for (const char* run : {"a", "b", "c"}) desk.place(run);
  desk.submit();
  desk.submit();
  desk.show("b", "PENDING");
  desk.show("a", "PENDING");
  desk.look();
  CHECK(desk.wants() == Names{"b.1", "a.1", "c.1"});
}

TEST_CASE("after a restart nodes are wanted for jobs that Slurm shows as waiting") {
  NodesDesk desk;
  desk.book.recover(NodesDesk::id("a"), desk.now);
  CHECK(desk.wants().empty());
  desk.show("a", "PENDING");
  desk.look();
  REQUIRE(desk.wants() == Names{"a.1"});
  CHECK(desk.book.wants()[0].nodes == 4);
}

TEST_CASE("what no node has is not refused while its nodes are yet to come") {
  for (const bool up : {false, true}) {
    CAPTURE(up);
    NodesDesk desk(Patience{.never = seconds(10), .nodes_come = true});
    std::string nodes;
    for (const char* name : {"n1", "n2", "n3", "n4"}) {
      nodes += std::string(name) + (up ? "|spot*|idle" : "|spot*|down") +
               "|4|4000|(null)|infinite|(null)|none\n";
    }
    desk.book.counted(parse_nodes(nodes));
    desk.place("a", 4);
    desk.submit();
    desk.show("a", "PENDING", "BadConstraints");
    for (int i = 0; i < 30; ++i) {
      desk.now += seconds(1);
      desk.look();
    }
    CHECK(desk.book.take_gone().size() == (up ? 1 : 0));
  }
}
