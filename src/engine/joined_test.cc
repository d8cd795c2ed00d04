#include "engine/joined.h"

#include <doctest/doctest.h>

#include "base/fake_clock.h"

namespace trainyard::engine {
namespace {

const MachineFacts kFacts{.host = "box", .cpus = 4, .memory_bytes = 8LL << 30, .gpus = {0, 1}};

Assignment assignment_of(const std::string& run) {
  return {.run = run, .attempt = 1, .token = "tya_" + run};
}
AttemptId attempt_of(const std::string& run) { return {RunId{run}, 1}; }

struct Box {
  FakeClock clock;
  int changes = 0;
  Joined engine{{.name = "box", .clock = clock, .facts = kFacts, .changed = [this] { ++changes; }}};
  std::vector<std::pair<AttemptId, Engine::Going>> gone;
  MachineReport report{.session = "s", .number = 0, .facts = kFacts, .seen = 0, .held = {}};

  Box() {
    engine.on_gone([this](const AttemptId& attempt, const Engine::Going& going) {
      gone.emplace_back(attempt, going);
    });
  }
  // The machine asks, and does what it is told.
  std::optional<MachineOrders> ask() {
    ++report.number;
    engine.take(report);
    auto orders = engine.orders(report);
    if (!orders) return orders;
    report.seen = orders->version;
    std::erase_if(report.held, [&](const HeldAttempt& one) {
      return std::find(orders->keep.begin(), orders->keep.end(), one.id) == orders->keep.end();
    });
    for (const Assignment& one : orders->start) report.held.push_back({.id = one.id()});
    return orders;
  }
};

TEST_CASE("what is placed is told to the machine, again until it holds it, and then no more") {
  Box box;
  REQUIRE(box.engine.place(assignment_of("a")));
  CHECK(box.changes == 1);
  CHECK(box.engine.inspect(attempt_of("a")) == Placement::live);
  for (int lost = 0; lost < 2; ++lost) {  // Answers that never arrive.
    box.engine.take(box.report);
    const auto orders = box.engine.orders(box.report);
    REQUIRE(orders);
    REQUIRE(orders->start.size() == 1);
    CHECK(orders->start[0].token == "tya_a");
  }
  REQUIRE(box.ask());
  CHECK_FALSE(box.ask().has_value());  // Nothing is new.
  REQUIRE(box.engine.place(assignment_of("a")));
  CHECK_FALSE(box.ask().has_value());  // The same again is the same.
  REQUIRE(box.engine.place(assignment_of("b")));
  const auto orders = box.ask();
  REQUIRE(orders);
  CHECK(orders->keep == std::vector{attempt_of("a"), attempt_of("b")});
  REQUIRE(orders->start.size() == 1);
  CHECK(orders->start[0].run == "b");
  CHECK(box.gone.empty());
}

TEST_CASE("an attempt whose supervisor has ended is told gone once, in the machine's words") {
  Box box;
  REQUIRE(box.engine.place(assignment_of("a")));
  box.ask();
  box.report.held[0].live = false;
  box.report.held[0].why = "exited with code 1";
  box.ask();
  box.ask();
  REQUIRE(box.gone.size() == 1);
  CHECK(box.gone[0].first == attempt_of("a"));
  CHECK(box.gone[0].second.why == "exited with code 1");
  CHECK(box.engine.inspect(attempt_of("a")) == Placement::gone);
}

TEST_CASE("what is released is no more among what the machine is to keep") {
  Box box;
  REQUIRE(box.engine.place(assignment_of("a")));
  box.ask();
  REQUIRE(box.engine.release(attempt_of("a")));
  const auto orders = box.ask();
  REQUIRE(orders);
  CHECK(orders->keep.empty());
  CHECK(box.report.held.empty());
  CHECK(box.engine.inspect(attempt_of("a")) == Placement::unknown);
  CHECK(box.gone.empty());
}

TEST_CASE("after a restart of the server the machine says what it holds") {
  Box box;
  box.report.held = {{.id = attempt_of("held")}};
  REQUIRE(box.engine.recover(attempt_of("held")));
  REQUIRE(box.engine.recover(attempt_of("never-told")));
  CHECK(box.engine.inspect(attempt_of("never-told")) == Placement::live);  // For all we know.
  const auto orders = box.ask();
  REQUIRE(orders);
  CHECK(orders->start.empty());
  CHECK(box.engine.inspect(attempt_of("held")) == Placement::live);
  REQUIRE(box.gone.size() == 1);
  CHECK(box.gone[0].first == attempt_of("never-told"));
  CHECK(box.gone[0].second.why == "machine box has nothing of it");
}

TEST_CASE("a report that was overtaken by the next takes nothing away") {
  Box box;
  box.ask();
  const MachineReport waited = box.report;  // Before anything was placed.
  REQUIRE(box.engine.place(assignment_of("a")));
  box.ask();
  box.ask();  // It holds it now.
  CHECK(box.engine.take(waited) == Joined::Taken::stale);
  box.report.session = "after a restart of its daemon";
  box.report.number = 0;
  box.ask();
  CHECK(box.engine.take(waited) == Joined::Taken::stale);
  CHECK(box.gone.empty());
}

TEST_CASE("versions of a new server are none of those the machine has seen") {
  Box before;
  REQUIRE(before.engine.place(assignment_of("a")));
  before.ask();
  Box after;
  after.clock.advance(seconds(1));
  Joined fresh{{.name = "box", .clock = after.clock, .facts = kFacts, .changed = {}}};
  CHECK(fresh.orders(before.report).has_value());
}

TEST_CASE("a kill is asked for, and done when the machine says so") {
  Box box;
  REQUIRE(box.engine.place(assignment_of("a")));
  box.ask();
  const Status killed = box.engine.kill(attempt_of("a"));
  REQUIRE_FALSE(killed);
  CHECK(killed.error().kind == ErrorKind::unavailable);
  const auto orders = box.ask();
  REQUIRE(orders);
  CHECK(orders->kill == std::vector{attempt_of("a")});
  box.report.held[0].live = false;
  box.ask();
  CHECK(box.engine.kill(attempt_of("a")));
}

TEST_CASE("a machine that is away keeps what it has, and what waits for it says since when") {
  Box box;
  REQUIRE(box.engine.place(assignment_of("a")));
  box.ask();
  box.clock.advance(seconds(44));
  CHECK(box.engine.waits_for(attempt_of("a")).empty());
  box.clock.advance(seconds(6));
  CHECK(box.engine.waits_for(attempt_of("a")) == "machine box was not heard of for 50 seconds");
  box.clock.advance(seconds(150));
  CHECK(box.engine.waits_for(attempt_of("a")) == "machine box was not heard of for 3 minutes");
  CHECK(box.engine.inspect(attempt_of("a")) == Placement::live);
  CHECK(box.gone.empty());
  box.ask();
  CHECK(box.engine.waits_for(attempt_of("a")).empty());
}

TEST_CASE("what the machine has is the target's capacity, as it says it now") {
  Box box;
  CHECK(box.engine.capacity().cpus == 4);
  CHECK(box.engine.capacity().gpus == std::vector{0, 1});
  CHECK(box.engine.take(box.report) == Joined::Taken::same);
  box.report.facts.cpus = 8;
  CHECK(box.engine.take(box.report) == Joined::Taken::changed);
  CHECK(box.engine.capacity().cpus == 8);
}

TEST_CASE("a machine that is given up ends what is placed there for good") {
  Box box;
  REQUIRE(box.engine.place(assignment_of("a")));
  box.engine.abandon("machine box was removed");
  REQUIRE(box.gone.size() == 1);
  CHECK(box.gone[0].second.refused);
}

}  // namespace
}  // namespace trainyard::engine
