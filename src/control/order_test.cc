#include "control/yard.h"

// Who goes first, and who gets which GPU.
using namespace trainyard;
using namespace trainyard::control;

namespace {

RunSpec with(Priority priority) {
  RunSpec spec = Yard::spec(2);
  spec.priority = priority;
  return spec;
}

RunSpec with_gpus(int gpus) {
  RunSpec spec = Yard::spec();
  spec.resources.gpus = gpus;
  return spec;
}

std::vector<int> gpus_of(Yard& yard, const std::string& id, int attempt = 1) {
  const auto assignment = yard.engine.assignment({RunId{id}, attempt});
  REQUIRE(assignment);
  return assignment->gpus;
}

const engine::Capacity kGpuMachine{.cpus = 8, .memory_bytes = 16 * kGb, .gpus = {0, 3}};

}  // namespace

TEST_CASE("a higher priority goes first, equals in the order they came") {
  Yard yard;
  yard.submit("under-way", Yard::spec(2));
  yard.control->tick();
  yard.submit("low", with(Priority::low));
  yard.submit("normal-1", with(Priority::normal));
  yard.submit("high-1", with(Priority::high));
  yard.submit("normal-2", with(Priority::normal));
  yard.submit("high-2", with(Priority::high));
  CHECK(yard.run("low").reason == "waits for 2 CPUs: 0 free of 2; position 5");
  CHECK(yard.run("high-2").reason == "waits for 2 CPUs: 0 free of 2; position 2");
  const auto listed = yard.control->runs({.status = "Queued"});
  REQUIRE(listed->size() == 5);
  CHECK((*listed)[1].reason.ends_with("position 4"));  // normal-2
  REQUIRE(yard.report("under-way", 1, whole_life()));
  for (const char* next : {"high-1", "high-2", "normal-1", "normal-2", "low"}) {
    yard.control->tick();
    CAPTURE(next);
    REQUIRE(yard.status(next) == RunStatus::provisioning);
    REQUIRE(yard.report(next, 1, whole_life()));
  }
}

TEST_CASE("a GPU is one run's alone, over a restart too") {
  Yard yard(kGpuMachine);
  yard.submit("run-1", with_gpus(1));
  yard.submit("run-2", with_gpus(1));
  yard.submit("run-3", with_gpus(1));
  yard.control->tick();
  CHECK(gpus_of(yard, "run-1") == std::vector{0});
  CHECK(gpus_of(yard, "run-2") == std::vector{3});
  CHECK(yard.run("run-3").reason == "waits for 1 GPU: 0 free of 2; position 1");
  CHECK(yard.run("run-2").attempts[0].gpus == std::vector{3});
  yard.restart();
  yard.control->tick();
  CHECK(yard.status("run-3") == RunStatus::queued);
  REQUIRE(yard.report("run-2", 1, whole_life()));
  yard.control->tick();
  CHECK(gpus_of(yard, "run-3") == std::vector{3});
  CHECK(yard.engine.assignment({RunId{"run-3"}, 1})->gives_gpus);
}

TEST_CASE("who waits for a GPU lets by those that want none, and nobody else") {
  Yard yard(kGpuMachine);
  yard.submit("holder", with_gpus(2));
  yard.submit("waits", with_gpus(1));
  yard.submit("plain");
  yard.submit("waits-too", with_gpus(1));
  yard.submit("plain-2");
  yard.control->tick();
  CHECK(yard.status("plain") == RunStatus::provisioning);
  CHECK(yard.status("plain-2") == RunStatus::provisioning);
  CHECK(yard.status("waits") == RunStatus::queued);
  REQUIRE(yard.report("holder", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.status("waits") == RunStatus::provisioning);
  CHECK(yard.status("waits-too") == RunStatus::provisioning);
}

TEST_CASE("more GPUs than there are is refused, unless there are none at all") {
  Yard yard(kGpuMachine);
  const auto refused = yard.control->submit({RunId{"run-1"}, with_gpus(3), "ada"});
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::invalid);
  CHECK(refused.error().message == "target local has 2 GPUs, 3 were asked for");
  Yard plain;
  plain.submit("run-1", with_gpus(3));
  plain.control->tick();
  CHECK(plain.status("run-1") == RunStatus::provisioning);
  CHECK(gpus_of(plain, "run-1").empty());
  CHECK_FALSE(plain.engine.assignment({RunId{"run-1"}, 1})->gives_gpus);
}

TEST_CASE("what a GPU does becomes metrics of the run, each report once") {
  Yard yard(kGpuMachine);
  yard.submit("run-1", with_gpus(1));
  yard.control->tick();
  Report sample = phase(1, ReportKind::sample);
  sample.gpus = {{.index = 0, .utilization = 87.5, .memory_bytes = 2'000'000, .power_watts = -1}};
  REQUIRE(yard.report("run-1", 1, {sample}));
  REQUIRE(yard.report("run-1", 1, {sample}));
  const Run run = yard.run("run-1");
  REQUIRE(run.metrics.size() == 2);
  CHECK(run.metrics[0].name == "system/gpu_0_utilization_percentage");
  CHECK(run.metrics[0].points == 1);
  CHECK(run.metrics[0].last.value == 87.5);
  CHECK(run.metrics[1].last.value == 2.0);
}

TEST_CASE("a retry is a new attempt with what the last one left, and is said in its history") {
  Yard yard;
  RunSpec spec = Yard::spec();
  spec.retry = {.max = 1};
  yard.submit("run-1", spec);
  yard.control->tick();
  std::vector<Report> life = whole_life(3);
  life.back().end.outputs = "tree-1";
  REQUIRE(yard.report("run-1", 1, life));
  CHECK(yard.status("run-1") == RunStatus::queued);
  yard.restart();
  yard.control->tick();
  CHECK(yard.engine.assignment({RunId{"run-1"}, 2})->outputs == "tree-1");
  CHECK(kind_of(yard.report("run-1", 1, {phase(6, ReportKind::sample)})) == ErrorKind::conflict);
  REQUIRE(yard.report("run-1", 2, whole_life(3)));
  const Run run = yard.run("run-1");
  CHECK(run.life.status == RunStatus::failed);
  CHECK(run.life.retries == 1);
  CHECK(run.attempts.size() == 2);
  bool said = false;
  for (const RunEventRecord& event : run.events) {
    said = said || event.text.starts_with("is tried again (1 of 1): rank 0 exited");
  }
  CHECK(said);
}

TEST_CASE("GPU samples of a long run are kept ever further apart") {
  Yard yard(kGpuMachine);
  yard.submit("run-1", with_gpus(1));
  yard.control->tick();
  constexpr int kSamples = 2'000;
  for (int i = 1; i <= kSamples; ++i) {
    yard.clock.advance(std::chrono::hours(1));
    Report sample{.seq = i, .kind = ReportKind::sample};
    sample.gpus = {{.index = 3, .utilization = 50, .memory_bytes = 7, .power_watts = 9}};
    REQUIRE(yard.report("run-1", 1, {sample}));
  }
  const Run run = yard.run("run-1");
  REQUIRE(run.metrics.size() == 3);
  for (const Metric& metric : run.metrics) {
    CHECK(metric.points > 1'000);
    CHECK(metric.points < 1'300);
    CHECK(yard.clock.wall() - metric.last.at < std::chrono::hours(kSamples) / 250);
  }
}
