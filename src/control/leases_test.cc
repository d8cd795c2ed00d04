#include <sys/resource.h>

#include <csignal>

#include "control/yard.h"

using namespace trainyard;
using namespace trainyard::control;

TEST_CASE("a supervisor lost before user code ran is replaced, three times; after, the run fails") {
  Yard yard;
  yard.submit("early");
  for (int attempt = 1; attempt <= kLostEarlyMax; ++attempt) {
    yard.control->tick();
    REQUIRE(yard.report("early", attempt, {phase(1, ReportKind::preparing)}));
    yard.engine.end({RunId{"early"}, attempt}, "killed by signal 9");
  }
  yard.control->tick();
  const Run early = yard.run("early");
  CHECK(early.life.status == RunStatus::failed);
  CHECK(early.reason == "its supervisor is gone: killed by signal 9");
  CHECK(early.attempts.size() == kLostEarlyMax);

  yard.submit("late");
  yard.control->tick();
  REQUIRE(
      yard.report("late", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::starting)}));
  yard.engine.end({RunId{"late"}, 1}, "killed by signal 9");
  yard.control->tick();
  CHECK(yard.status("late") == RunStatus::failed);
  CHECK(yard.run("late").life.attempt == 1);
  CHECK(yard.control->load().cpus_used == 0);
}

TEST_CASE("a loss that the disk refuses is tried again after longer and longer pauses") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::starting)}));
  struct FullDisk {
    rlimit before{};
    FullDisk() {
      std::signal(SIGXFSZ, SIG_IGN);
      getrlimit(RLIMIT_FSIZE, &before);
      const rlimit none{1, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &none);
    }
    ~FullDisk() {
      setrlimit(RLIMIT_FSIZE, &before);
      std::signal(SIGXFSZ, SIG_DFL);
    }
  };
  {
    const FullDisk full;
    yard.engine.end({RunId{"run-1"}, 1}, "killed by signal 9");
    CHECK(yard.control->tick() == yard.clock.steady() + seconds(1));
    CHECK(yard.control->tick() == yard.clock.steady() + seconds(1));  // Woken, and not tried.
    yard.clock.advance(seconds(1));
    CHECK(yard.control->tick() == yard.clock.steady() + seconds(2));
    yard.clock.advance(seconds(2));
    CHECK(yard.control->tick() == yard.clock.steady() + seconds(4));
    CHECK(yard.status("run-1") == RunStatus::starting);
  }
  yard.clock.advance(seconds(4));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::failed);
  CHECK(yard.run("run-1").reason == "its supervisor is gone: killed by signal 9");
  CHECK(yard.control->load().cpus_used == 0);
}

TEST_CASE("why an attempt was evicted is the engine's to say, once it knows") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(yard.report("run-1", 1,
                      {phase(1, ReportKind::preparing), phase(2, ReportKind::running),
                       ended(3, EndCause::evicted, 1)}));
  yard.control->tick();
  REQUIRE(yard.run("run-1").life.attempt == 2);
  const AttemptId first{RunId{"run-1"}, 1};
  const std::string why = "Slurm gave its nodes to another job (PREEMPTED)";
  yard.engine.tell(first, {.why = "its Slurm job 7 has ended"});  // Says nothing of why.
  yard.engine.tell(first, {.why = why, .evicted = true, .stopped = true});
  yard.engine.tell(first, {.why = "its Slurm job 7 has ended"});
  yard.control->tick();
  const Run run = yard.run("run-1");
  CHECK(run.attempts.front().end->cause == EndCause::evicted);
  CHECK(run.attempts.front().end->error == why);
  CHECK(run.life.attempt == 2);
  // A run that is over is not changed any more.
  REQUIRE(yard.report("run-1", 2, whole_life()));
  const int64_t version = yard.run("run-1").version;
  yard.engine.tell(first, {.why = "something else", .evicted = true, .stopped = true});
  yard.control->tick();
  CHECK(yard.run("run-1").version == version);
}

TEST_CASE("a place that fails is tried again after a pause, and not for ever") {
  Yard yard;
  for (int i = 0; i < kLostEarlyMax; ++i) {
    yard.engine.fail_next_place(FakeEngine::Fault::refused);
  }
  yard.submit("run-1");
  const SteadyTime next = yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::queued);
  CHECK(next == yard.clock.steady() + seconds(1));
  yard.control->tick();
  CHECK(yard.run("run-1").life.attempt == 1);
  for (int i = 0; i < 2; ++i) {
    yard.clock.advance(seconds(1));
    yard.control->tick();
  }
  const Run run = yard.run("run-1");
  CHECK(run.life.status == RunStatus::failed);
  CHECK(run.reason.find("no process is to be had") != std::string::npos);
}

TEST_CASE("a silent supervisor that is gone is lost after its lease") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  yard.engine.end({RunId{"run-1"}, 1}, "", FakeEngine::Tell::no);
  yard.clock.advance(seconds(30));
  yard.control->tick();
  yard.clock.advance(seconds(29));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::running);
  yard.clock.advance(seconds(1));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::failed);
  CHECK(yard.run("run-1").reason == "its supervisor is gone: it was not heard of for 60 s");
}

TEST_CASE("a silent supervisor that lives is given ten minutes, then killed") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  const SteadyTime heard = yard.clock.steady();
  SteadyTime next = yard.control->tick();
  while (yard.status("run-1") == RunStatus::running) {
    REQUIRE(next < heard + seconds(700));
    yard.clock.advance(next - yard.clock.steady());
    next = yard.control->tick();
  }
  CHECK(yard.clock.steady() - heard == seconds(600));
  CHECK(yard.engine.live().empty());
  CHECK(yard.run("run-1").reason == "its supervisor was not heard of for 600 s and was killed");
}

TEST_CASE("a laptop that slept for an hour kills nobody") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  yard.clock.advance(std::chrono::hours(1));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::running);
  REQUIRE(yard.report("run-1", 1, {}));
}

TEST_CASE("after a restart every run is taken up, and what was never placed is placed") {
  Yard yard;
  yard.submit("live");
  yard.engine.fail_next_place(FakeEngine::Fault::dropped);
  yard.control->tick();
  // The first place was dropped: claimed, and the server died before it was placed.
  CHECK(yard.engine.live().empty());
  yard.submit("placed");
  yard.control->tick();
  REQUIRE(yard.report("placed", 1, {phase(1, ReportKind::preparing)}));
  yard.submit("waiting");
  yard.restart();
  CHECK(yard.engine.live().size() == 2);
  CHECK(yard.control->load().cpus_used == 2);
  CHECK(yard.control->load().queued == 1);
  yard.control->tick();
  CHECK(yard.status("waiting") == RunStatus::queued);
  const auto assignment = yard.engine.assignment({RunId{"live"}, 1});
  REQUIRE(assignment);
  CHECK(yard.store->identify(assignment->token));
  REQUIRE(yard.report("live", 1, whole_life()));
  REQUIRE(yard.report("placed", 1, {phase(2, ReportKind::starting)}));
  yard.control->tick();
  CHECK(yard.status("waiting") == RunStatus::provisioning);
}

TEST_CASE("a supervisor that died with the server is lost at the restart") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  yard.engine.end({RunId{"run-1"}, 1}, "", FakeEngine::Tell::no);
  yard.restart();
  CHECK(yard.status("run-1") == RunStatus::failed);
}

TEST_CASE("an ended attempt's node is cleared once its supervisor has ended, over a restart too") {
  Yard yard;
  const AttemptId one{RunId{"run-1"}, 1};
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(yard.report("run-1", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.engine.unreleased().size() == 1);
  yard.restart();
  yard.control->tick();
  CHECK(yard.engine.unreleased().size() == 1);
  yard.engine.end(one, "exit 0");
  yard.control->tick();
  CHECK(yard.engine.unreleased().empty());
  yard.restart();
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::completed);
}
