#include "model/run.h"

#include <doctest/doctest.h>

using namespace trainyard;

namespace {

WallTime at(int ms) { return WallTime(milliseconds(1'000'000 + ms)); }

Run run_with(std::vector<RunEventRecord> events, RunStatus status) {
  Run run;
  run.created = at(0);
  run.life.status = status;
  run.events = std::move(events);
  return run;
}

}  // namespace

TEST_CASE("the phases of a finished run add up to its whole time") {
  Run run = run_with({{1, at(0), 0, "submitted", ""},
                      {2, at(1), 0, "queued", ""},
                      {3, at(5), 1, "provisioning", ""},
                      {4, at(9), 1, "preparing", ""},
                      {5, at(12), 1, "starting", ""},
                      {6, at(13), 1, "running", ""},
                      {7, at(90), 1, "finalizing", ""},
                      {8, at(100), 1, "ended", ""}},
                     RunStatus::completed);
  const std::vector<Phase> phases = timeline(run, at(5000));
  REQUIRE(phases.size() == 6);
  CHECK(phases.front().name == "queue");
  CHECK(phases.front().started == run.created);
  microseconds sum{0};
  for (size_t i = 0; i < phases.size(); ++i) {
    REQUIRE(phases[i].ended);
    if (i > 0) CHECK(phases[i].started == *phases[i - 1].ended);
    CHECK(!phases[i].text.empty());
    sum += *phases[i].ended - phases[i].started;
  }
  CHECK(sum == at(100) - at(0));
}

TEST_CASE("a run made again after a lost attempt has its queue phase twice") {
  Run run = run_with({{1, at(0), 0, "queued", ""},
                      {2, at(5), 1, "provisioning", ""},
                      {3, at(8), 1, "lost", "gone"},
                      {4, at(8), 1, "queued", ""},
                      {5, at(9), 2, "provisioning", ""}},
                     RunStatus::provisioning);
  const std::vector<Phase> phases = timeline(run, at(20));
  REQUIRE(phases.size() == 4);
  CHECK(phases[2].name == "queue");
  CHECK(!phases[3].ended);
}

TEST_CASE("the time of a build is a phase of its own, in the queue and on a node") {
  const auto names = [](const std::vector<Phase>& phases) {
    std::vector<std::string> all;
    for (const Phase& phase : phases) all.push_back(phase.name);
    return all;
  };
  Run here = run_with({{1, at(0), 0, "queued", ""},
                       {2, at(1), 1, "provisioning", ""},
                       {3, at(2), 1, "preparing", ""},
                       {4, at(3), 1, "building", ""},
                       {5, at(60), 1, "built", ""},
                       {6, at(61), 1, "starting", ""},
                       {7, at(62), 1, "ended", ""}},
                      RunStatus::completed);
  here.spec.preparation = "make";
  const std::vector<Phase> phases = timeline(here, at(99));
  CHECK(names(phases) ==
        std::vector<std::string>{"queue", "provision", "prepare", "build", "prepare", "start"});
  CHECK(phases[2].text == "its code was copied to the node");
  CHECK(phases[3].text == "its environment was waited for");
  CHECK(*phases[3].ended - phases[3].started == milliseconds(57));
  CHECK(phases[4].text.ends_with("its job preparation ran"));
  const Run held = run_with({{1, at(0), 0, "submitted", ""},
                             {2, at(0), 0, "queued", "environment 8f31c0 is to be built"},
                             {3, at(0), 0, "building", ""},
                             {4, at(60), 0, "queued", ""},
                             {5, at(61), 1, "provisioning", ""}},
                            RunStatus::provisioning);
  CHECK(names(timeline(held, at(99))) == std::vector<std::string>{"build", "queue", "provision"});
}

TEST_CASE("a waiting phase says why") {
  Run run = run_with({{1, at(0), 0, "queued", ""}}, RunStatus::queued);
  run.reason = "waits for 2 CPUs: 1 free of 2; position 3";
  const std::vector<Phase> phases = timeline(run, at(20));
  REQUIRE(phases.size() == 1);
  CHECK(phases[0].text == run.reason);
}

TEST_CASE("the phase in which a node is made ready tells of the job's preparation") {
  Run run =
      run_with({{1, at(0), 1, "preparing", ""}, {2, at(9), 1, "ended", ""}}, RunStatus::completed);
  CHECK(timeline(run, at(20)).at(0).text == "its code was copied to the node");
  run.spec.preparation = "make";
  CHECK(timeline(run, at(20)).at(0).text ==
        "its code was copied to the node, and its job preparation ran");
}
