#include "control/yard.h"

using namespace trainyard;
using namespace trainyard::control;

TEST_CASE("reports that come twice, late or out of order count once and in order") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  // 3 before 2: only what follows without a gap is taken.
  auto orders = yard.report("run-1", 1, {phase(3, ReportKind::running)});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 0);
  orders =
      yard.report("run-1", 1, {phase(2, ReportKind::starting), phase(1, ReportKind::preparing)});
  CHECK(orders->seq_acknowledged == 2);
  orders =
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::starting)});
  CHECK(orders->seq_acknowledged == 2);
  orders = yard.report("run-1", 1, {phase(3, ReportKind::running)});
  CHECK(orders->seq_acknowledged == 3);
  CHECK(yard.run("run-1").events.size() == 6);
}

TEST_CASE("a sample changes the attempt and neither history nor version") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  const int64_t version = yard.run("run-1").version;
  Report sample{.seq = 1, .kind = ReportKind::sample};
  sample.cpu_seconds = 7;
  sample.memory_bytes = 100;
  sample.memory_peak_bytes = 200;
  REQUIRE(yard.report("run-1", 1, {sample}));
  sample.seq = 2;
  sample.cpu_seconds = 6;  // It cannot have used less.
  REQUIRE(yard.report("run-1", 1, {sample}));
  const Run run = yard.run("run-1");
  CHECK(run.version == version);
  CHECK(run.events.size() == 3);
  CHECK(run.attempts[0].cpu_seconds == 7);
  CHECK(run.attempts[0].memory_peak_bytes == 200);
}

TEST_CASE("an event's time is the report's, never before the event before it") {
  Yard yard;
  yard.submit("run-1");
  yard.clock.advance(seconds(10));
  yard.control->tick();
  const WallTime placed = yard.clock.wall();
  yard.clock.advance(seconds(10));
  Report early = phase(1, ReportKind::preparing);
  early.age_us = microseconds(seconds(4)).count();
  Report impossible = phase(2, ReportKind::starting);
  impossible.age_us = microseconds(std::chrono::hours(9)).count();
  REQUIRE(yard.report("run-1", 1, {early, impossible}));
  const Run run = yard.run("run-1");
  CHECK(run.events[3].at == placed + seconds(6));
  CHECK(run.events[4].at == placed + seconds(6));
}

TEST_CASE("a stale attempt is fenced off, and so is one of a run that is over") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  yard.engine.end({RunId{"run-1"}, 1}, "killed by signal 9");
  yard.control->tick();
  CHECK(yard.run("run-1").life.attempt == 2);
  CHECK(kind_of(yard.report("run-1", 1, whole_life())) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->orders({{RunId{"run-1"}, 1}})) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->orders({{RunId{"run-1"}, 3}})) == ErrorKind::conflict);
  REQUIRE(yard.report("run-1", 2, whole_life()));
  CHECK(kind_of(yard.report("run-1", 2, whole_life())) == ErrorKind::conflict);
  CHECK(kind_of(yard.report("run-1", 2, {})) == ErrorKind::conflict);
  CHECK(kind_of(yard.report("none", 1, {})) == ErrorKind::not_found);
}
