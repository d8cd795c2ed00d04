#include "control/yard.h"

// Targets beyond this machine: each a queue of its own, some with a queue behind it.
using namespace trainyard;
using namespace trainyard::control;

namespace {

RunSpec on(const std::string& target) {
  RunSpec spec = Yard::spec();
  spec.target = target;
  return spec;
}

struct TwoTargets : Yard {
  std::shared_ptr<FakeEngine> cluster =
      std::make_shared<FakeEngine>(engine::Capacity{.nodes = 4, .window = 2});

  TwoTargets() { control->add_target("default/lab", cluster); }
};

}  // namespace

TEST_CASE("a run goes to its target's engine, and waits in its target's queue") {
  TwoTargets yard;
  yard.submit("here-1", Yard::spec(2));
  yard.submit("there-1", on("lab"));
  yard.submit("here-2");
  yard.submit("there-2", on("lab"));
  yard.submit("there-3", on("lab"));
  yard.control->tick();
  CHECK(yard.engine.live() == std::vector<AttemptId>{{RunId{"here-1"}, 1}});
  CHECK(yard.cluster->live() ==
        std::vector<AttemptId>{{RunId{"there-1"}, 1}, {RunId{"there-2"}, 1}});
  CHECK(yard.run("here-2").reason == "waits for 1 CPU: 0 free of 2; position 1");
  CHECK(yard.run("there-3").reason == "is about to start; position 1");
  REQUIRE(yard.report("there-1", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.status("there-3") == RunStatus::provisioning);
  CHECK(yard.status("here-2") == RunStatus::queued);
  CHECK(yard.cluster->assignment({RunId{"there-2"}, 1})->gives_gpus == false);
}

TEST_CASE("a window bounds what waits in an engine's own queue, not what runs there") {
  TwoTargets yard;
  for (int i = 1; i <= 5; ++i) yard.submit("run-" + std::to_string(i), on("lab"));
  yard.control->tick();
  CHECK(yard.cluster->live().size() == 2);
  REQUIRE(yard.report("run-1", 1, {phase(1, ReportKind::preparing)}));
  REQUIRE(yard.report("run-1", 1, {phase(2, ReportKind::starting)}));  // Counts once.
  yard.control->tick();
  CHECK(yard.cluster->live().size() == 3);
  REQUIRE(yard.report("run-2", 1, {phase(1, ReportKind::preparing)}));
  REQUIRE(yard.report("run-3", 1, {phase(1, ReportKind::preparing)}));
  yard.control->tick();
  CHECK(yard.cluster->live().size() == 5);
  REQUIRE(yard.report("run-1", 1, {phase(3, ReportKind::running), ended(4)}));
  yard.submit("run-6", on("lab"));
  yard.control->tick();
  CHECK(yard.status("run-6") == RunStatus::queued);  // run-4 and run-5 fill the window.
}

TEST_CASE("a run that waits in an engine's own queue is taken out of it when it is canceled") {
  TwoTargets yard;
  yard.submit("there-1", on("lab"));
  yard.control->tick();
  REQUIRE(yard.control->cancel(RunId{"there-1"}, "ada"));
  CHECK(yard.status("there-1") == RunStatus::cancel_requested);
  CHECK(yard.cluster->live().empty());
  yard.control->tick();
  CHECK(yard.status("there-1") == RunStatus::canceled);

  // One that a supervisor speaks for is told by its orders, and has its grace.
  yard.submit("there-2", on("lab"));
  yard.control->tick();
  REQUIRE(yard.report("there-2", 1, {phase(1, ReportKind::preparing)}));
  REQUIRE(yard.control->cancel(RunId{"there-2"}, "ada"));
  CHECK(yard.cluster->live().size() == 1);
}

TEST_CASE("what a target cannot have is refused with its name and numbers") {
  TwoTargets yard;
  RunSpec spec = on("lab");
  spec.nodes = 5;
  auto refused = yard.control->submit({RunId{"run-1"}, spec, "ada"});
  REQUIRE(!refused);
  CHECK(refused.error().message == "target lab has 4 nodes, 5 were asked for");
  refused = yard.control->submit({RunId{"run-1"}, on("lob"), "ada"});
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::not_found);
  CHECK(refused.error().hint == "Did you mean 'lab'? Targets here: lab, local.");
}

TEST_CASE("a refusal ends a run with the engine's words, an eviction puts it back in its queue") {
  TwoTargets yard;
  yard.submit("refused", on("lab"));
  yard.submit("evicted", on("lab"));
  yard.control->tick();
  yard.cluster->tell({RunId{"refused"}, 1}, {.why = "sbatch: invalid partition", .refused = true});
  REQUIRE(yard.report("evicted", 1,
                      {phase(1, ReportKind::preparing), phase(2, ReportKind::starting),
                       phase(3, ReportKind::running)}));
  yard.cluster->tell({RunId{"evicted"}, 1}, {.why = "node n2 was preempted", .evicted = true});
  yard.control->tick();
  CHECK(yard.status("refused") == RunStatus::failed);
  CHECK(yard.run("refused").life.error == "sbatch: invalid partition");
  const Run run = yard.run("evicted");
  CHECK(run.life.status == RunStatus::provisioning);
  CHECK(run.life.attempt == 2);
  CHECK(run.life.retries == 0);
  CHECK(run.attempts[0].end->cause == EndCause::evicted);
  CHECK(kind_of(yard.report("evicted", 1, {phase(4, ReportKind::sample)})) == ErrorKind::conflict);
}

TEST_CASE("what waits in an engine's own queue says why, and is not lost by its silence") {
  TwoTargets yard;
  yard.cluster->set_waiting("waits for 4 nodes: 1 idle of 6");
  yard.submit("run-1", on("lab"));
  yard.control->tick();
  CHECK(yard.run("run-1").reason == "waits for 4 nodes: 1 idle of 6");
  for (int minute = 0; minute < 30; ++minute) {
    yard.clock.advance(seconds(60));
    yard.control->tick();
  }
  CHECK(yard.status("run-1") == RunStatus::provisioning);
}

TEST_CASE("nothing new is placed on a paused target, nor on one that is gone") {
  TwoTargets yard;
  yard.control->pause_target("default/lab", true);
  yard.submit("run-1", on("lab"));
  yard.control->tick();
  CHECK(yard.run("run-1").reason == "waits for its target, which is paused; position 1");
  yard.control->pause_target("default/lab", false);
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::provisioning);
  yard.control->remove_target("default/lab");
  REQUIRE(yard.report("run-1", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::completed);
}

TEST_CASE("a supervisor elsewhere is told all but what is of this machine alone") {
  TwoTargets yard;
  yard.submit("run-1", on("lab"));
  yard.control->tick();
  const auto told = yard.control->assignment({RunId{"run-1"}, 1}, "tya_x", 0);
  REQUIRE(told);
  CHECK(told->token == "tya_x");
  CHECK(told->server_url == "http://here");
  CHECK(told->server_socket.empty());
  CHECK(told->blobs.empty());
  CHECK(told->spec == on("lab"));
  CHECK(kind_of(yard.control->assignment({RunId{"run-1"}, 1}, "tya_x", 1)) == ErrorKind::invalid);
  CHECK(kind_of(yard.control->assignment({RunId{"run-1"}, 2}, "tya_x", 0)) == ErrorKind::conflict);
}

TEST_CASE("slots are given to one run each, and their GPUs to nobody else on the machine") {
  Yard yard({.cpus = 2, .memory_bytes = 16 * kGb, .gpus = {0, 1, 2}});
  const auto slots = std::make_shared<FakeEngine>(
      engine::Capacity{.cpus = 1, .memory_bytes = kGb, .gpus = {0, 1, 2}, .nodes = 4, .slots = 4});
  yard.control->add_target("default/slots", slots);
  const auto wants = [](int nodes, int gpus) {
    RunSpec spec = on("slots");
    spec.nodes = nodes;
    spec.resources.gpus = gpus;
    return spec;
  };
  yard.submit("wide", wants(2, 1));
  RunSpec here = Yard::spec();
  here.resources.gpus = 1;
  yard.submit("here", here);
  yard.control->tick();
  yard.submit("starved", wants(1, 1));
  yard.submit("plain", wants(2, 0));
  yard.submit("last", wants(1, 0));
  yard.control->tick();
  CHECK(yard.run("wide").attempts.front().gpus.size() == 2);
  CHECK(yard.status("here") == RunStatus::provisioning);
  std::vector<int> all = yard.run("wide").attempts.front().gpus;
  const std::vector<int> others = yard.run("here").attempts.front().gpus;
  all.insert(all.end(), others.begin(), others.end());
  std::ranges::sort(all);
  CHECK(all == std::vector{0, 1, 2});
  // One that lacks GPUs alone lets by those that want none.
  CHECK(yard.run("starved").reason ==
        "waits for 1 node: 0 free of 4 and 1 GPU: 0 free of 3; position 1");
  CHECK(yard.status("plain") == RunStatus::provisioning);
  CHECK(yard.run("last").reason.starts_with("waits for 1 node: 0 free of 4"));

  yard.restart();
  yard.control->add_target("default/slots", slots);
  yard.control->tick();
  CHECK(yard.status("starved") == RunStatus::queued);
  CHECK(kind_of(yard.control->submit({RunId{"many"}, wants(2, 2), "ada"})) == ErrorKind::invalid);
  CHECK(kind_of(yard.control->submit({RunId{"more"}, wants(5, 0), "ada"})) == ErrorKind::invalid);
}
