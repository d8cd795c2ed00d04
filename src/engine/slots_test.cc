#include "engine/slots.h"

#include <doctest/doctest.h>
#include <poll.h>

#include "base/fake_clock.h"

using namespace trainyard;
using namespace trainyard::engine;

namespace {

// Supervisors that end when their folder has a file `end`.
constexpr const char* kEndWhenTold = "#!/bin/sh\nuntil [ -e end ]; do sleep 0.02; done\n";

struct SlotsYard {
  TempDir dir;
  Home home{dir.path() / "home"};
  FakeClock clock;
  NullLog log;
  std::atomic<int> gone = 0;
  std::shared_ptr<Slots> slots;

  explicit SlotsYard(const ComputeSpec& compute, VmSize size = {}) {
    REQUIRE(make_dirs(home.root()));
    REQUIRE(write_file(dir.path() / "supervisor", kEndWhenTold, 0755));
    open(compute, std::move(size));
  }
  void open(const ComputeSpec& compute, VmSize size = {}) {
    slots = Slots::make({home, clock, log, dir.path() / "supervisor"},
                        {.compute = compute, .size = std::move(size)})
                .value();
    slots->on_gone([this](const AttemptId&, const Engine::Going&) { ++gone; });
  }
  AttemptId place(const std::string& run, int nodes, std::vector<int> gpus = {}) {
    Assignment assignment;
    assignment.run = run;
    assignment.spec.nodes = nodes;
    assignment.gpus = std::move(gpus);
    REQUIRE(slots->place(assignment));
    return assignment.id();
  }
  void end(const AttemptId& attempt, int node) {
    REQUIRE(write_file(home.attempt(attempt, node) / "end", ""));
  }
  bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      poll(nullptr, 0, 1);
    }
    return false;
  }
  std::string given(const AttemptId& attempt, int node) {
    return read_file(home.attempt(attempt, node) / "assignment.json").value_or("");
  }
  std::string states() {
    std::string all;
    for (const NodeState& node : slots->nodes().nodes) {
      all += node.is == NodeState::Is::running ? 'r' : node.is == NodeState::Is::idle ? 'i' : '-';
    }
    return all;
  }
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("slots come up with runs and go off after the idle time") {
  SlotsYard yard({.name = "gpu", .min_nodes = 1, .max_nodes = 4, .idle_seconds = 60});
  CHECK(yard.states() == "i---");
  const AttemptId first = yard.place("one", 2);
  CHECK(yard.states() == "rr--");
  const AttemptId second = yard.place("two", 1);
  CHECK(yard.states() == "rrr-");
  CHECK(yard.slots->nodes().nodes[2].runs == std::vector{RunId{"two"}});
  CHECK(yard.slots->nodes().wanted == 3);

  // Given back before its supervisors have ended: the next run may have them.
  yard.slots->vacate(first);
  CHECK(yard.states() == "iir-");
  yard.clock.advance(seconds(61));
  CHECK(yard.states() == "--r-");
  yard.slots->change(
      {.compute = {.name = "gpu", .min_nodes = 2, .max_nodes = 2, .idle_seconds = 60}});
  CHECK(yard.states() == "i-r");  // The one that is used stays until its run has ended.
  yard.slots->pause(true);
  CHECK(yard.states() == "--r");
  for (int node = 0; node < 2; ++node) yard.end(first, node);
  yard.end(second, 0);
  CHECK(yard.eventually([&] { return yard.gone == 2; }));
}

TEST_CASE("an attempt is gone when the last of its nodes is, and leaves nothing") {
  SlotsYard yard({.name = "gpu", .max_nodes = 3});
  const AttemptId attempt = yard.place("one", 3, {4, 5, 6});
  CHECK(has(yard.given(attempt, 1), R"("nodeName":"gpu-1")"));
  CHECK(has(yard.given(attempt, 1), R"("nodeAddress":"127.1.0.2")"));
  CHECK(has(yard.given(attempt, 2), R"("gpus":[6])"));
  yard.end(attempt, 0);
  yard.end(attempt, 2);
  poll(nullptr, 0, 100);
  CHECK(yard.slots->inspect(attempt) == Placement::live);
  CHECK(yard.gone == 0);

  yard.open({.name = "gpu", .max_nodes = 3});  // As after a restart of the server.
  CHECK(yard.states() == "---");
  REQUIRE(yard.slots->recover(attempt));
  CHECK(yard.states() == "rrr");
  CHECK(yard.slots->inspect(attempt) == Placement::live);
  yard.end(attempt, 1);
  CHECK(yard.eventually([&] { return yard.gone == 1; }));
  REQUIRE(yard.slots->release(attempt));
  CHECK(fs::is_empty(yard.home.node()));
}

TEST_CASE("a size makes slots smaller than the machine, and never larger") {
  SlotsYard yard({.name = "gpu", .max_nodes = 1});
  const Capacity machine = yard.slots->capacity();
  CHECK(machine.slots == 1);
  yard.slots->change(
      {.compute = {.max_nodes = 2}, .size = {.name = "s", .cpus = 1, .memory_gb = 1e9}});
  const Capacity small = yard.slots->capacity();
  CHECK(small.cpus == 1);
  CHECK(small.memory_bytes == machine.memory_bytes / 2);
  CHECK(small.gpus.empty());
  CHECK(small.nodes == 2);
}
