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

TEST_CASE("a report says which one it follows: numbers in between are not waited for") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  Report running = phase(3, ReportKind::running);
  Report finalizing = phase(7, ReportKind::finalizing);
  finalizing.after = 3;
  auto orders = yard.report("run-1", 1, {phase(1, ReportKind::preparing), finalizing});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 1);  // It says where it is; 3 is missing.
  running.after = 1;
  orders = yard.report("run-1", 1, {running, finalizing});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 7);
  CHECK(yard.status("run-1") == RunStatus::finalizing);
}

TEST_CASE("gaps of a supervisor of an earlier version, which cannot fill them, are skipped") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  Report first{.seq = 1, .kind = ReportKind::preparing};
  Report running{.seq = 3, .kind = ReportKind::running};
  Report sample{.seq = 4, .kind = ReportKind::sample};
  sample.cpu_seconds = 3;
  REQUIRE(yard.report("run-1", 1, {first, running, sample}));
  // 5 and 6 were samples of a supervisor that was killed.
  Report end{.seq = 7, .kind = ReportKind::ended};
  end.end.cause = EndCause::lost;
  end.end.ranks_started = true;
  end.end.error = "its supervisor (pid 7) was killed";
  const auto orders = yard.report("run-1", 1, {end});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 7);
  CHECK(yard.status("run-1") == RunStatus::failed);
  CHECK(yard.run("run-1").attempts[0].cpu_seconds == 3);
  CHECK(yard.control->load("local").cpus_used == 0);
}

TEST_CASE("samples are numbered by themselves and count once") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  Report sample{.kind = ReportKind::sample};
  sample.sample = 2;
  sample.cpu_seconds = 7;
  sample.memory_bytes = 100;
  REQUIRE(yard.report("run-1", 1, {sample}));
  sample.sample = 1;
  sample.memory_bytes = 50;
  const auto orders = yard.report("run-1", 1, {sample, phase(1, ReportKind::preparing)});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 1);
  CHECK(yard.run("run-1").attempts[0].memory_bytes == 100);
}

TEST_CASE("the answer says which start of the server gave it, and an end is taken by no other") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  const auto first = yard.report("run-1", 1, {phase(1, ReportKind::preparing)});
  REQUIRE(first);
  CHECK_FALSE(first->epoch.empty());
  yard.restart();
  AttemptNode from{{RunId{"run-1"}, 1}};
  from.epoch = first->epoch;
  std::vector<Report> rest = whole_life();
  auto orders = yard.control->report(from, rest);
  REQUIRE(orders);
  CHECK(orders->epoch != first->epoch);
  CHECK(orders->seq_acknowledged == 4);
  CHECK(yard.status("run-1") == RunStatus::finalizing);
  from.epoch = orders->epoch;
  REQUIRE(yard.control->report(from, rest));
  CHECK(yard.status("run-1") == RunStatus::completed);
}

TEST_CASE("the first supervisor that reports has the attempt, and a second one is refused") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  AttemptNode first{{RunId{"run-1"}, 1}};
  first.instance = "sup_a";
  AttemptNode second = first;
  second.instance = "sup_b";
  const Report preparing = phase(1, ReportKind::preparing);
  const Report starting = phase(2, ReportKind::starting);
  REQUIRE(yard.control->report(first, {&preparing, 1}));
  CHECK(kind_of(yard.control->report(second, {&preparing, 1})) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->report(second, {})) == ErrorKind::conflict);
  CHECK(yard.notes.with([](const auto& notes) { return notes.size(); }) == 1);
  REQUIRE(yard.control->report(first, {&starting, 1}));
  yard.restart();
  CHECK(kind_of(yard.control->report(second, {&starting, 1})) == ErrorKind::conflict);
  REQUIRE(yard.control->report(first, {}));
}

TEST_CASE("a supervisor whose reports cannot be taken is ended, with the reason") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(yard.report("run-1", 1, {phase(1, ReportKind::preparing)}));
  REQUIRE(yard.report("run-1", 1, {phase(2, ReportKind::starting)}));
  for (int i = 0; i < 30; ++i) {  // It renews its lease all the while.
    REQUIRE(yard.report("run-1", 1, {phase(4, ReportKind::finalizing)}));
    yard.clock.advance(seconds(15));
    yard.control->tick();
    CHECK(yard.status("run-1") == RunStatus::starting);
  }
  // Progress in between is progress.
  REQUIRE(yard.report("run-1", 1, {phase(3, ReportKind::running)}));
  for (int i = 0; i < 39; ++i) {
    REQUIRE(yard.report("run-1", 1, {phase(9, ReportKind::finalizing)}));
    yard.clock.advance(seconds(15));
    yard.control->tick();
    CHECK(yard.status("run-1") == RunStatus::running);
  }
  REQUIRE(yard.report("run-1", 1, {phase(9, ReportKind::finalizing)}));
  yard.clock.advance(seconds(30));
  yard.control->tick();
  const Run run = yard.run("run-1");
  CHECK(run.life.status == RunStatus::failed);
  CHECK(run.life.error.find("made no progress for") != std::string::npos);
  CHECK(run.life.error.find("report 9 cannot be taken after report 3") != std::string::npos);
}

TEST_CASE("a canceled run whose supervisor goes on as if nothing were is ended") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::starting)}));
  REQUIRE(yard.control->cancel(RunId{"run-1"}, "ada"));
  const auto live_on = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      if (const auto orders = yard.report("run-1", 1, {})) CHECK(orders->cancel);
      yard.clock.advance(seconds(15));
      yard.control->tick();
    }
  };
  SUBCASE("after its grace time and ten minutes") {
    live_on(40);
    CHECK(yard.status("run-1") == RunStatus::cancel_requested);
    live_on(10);
    CHECK(yard.status("run-1") == RunStatus::canceled);
  }
  SUBCASE("across a restart of the server") {
    live_on(20);
    yard.restart();
    live_on(50);
    CHECK(yard.status("run-1") == RunStatus::canceled);
  }
  SUBCASE("and one that sends its outputs is left alone") {
    REQUIRE(yard.report("run-1", 1, {phase(3, ReportKind::finalizing)}));
    live_on(100);
    CHECK(yard.status("run-1") == RunStatus::cancel_requested);
  }
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
