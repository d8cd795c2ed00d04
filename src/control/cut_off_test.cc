// Attempts of a cluster whose nodes may be cut off from the server while their ranks run on.
#include "control/yard.h"

using namespace trainyard;
using namespace trainyard::control;

namespace {

constexpr seconds kLimit{4 * 3600};

struct CutOff : Yard {
  const AttemptId first{RunId{"run-1"}, 1};

  CutOff() {
    engine.set_outage({.limit = kLimit, .unsent = seconds(900)});
    submit("run-1");
    control->tick();
    REQUIRE(report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  }
  // Time passes, and nothing is heard of it.
  void pass(seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(30)) {
      clock.advance(seconds(30));
      control->tick();
    }
  }
};

}  // namespace

TEST_CASE("a supervisor is told for how long it may go on without the server") {
  CutOff yard;
  CHECK(yard.engine.assignment(yard.first)->outage_s == kLimit.count());
  CHECK(yard.engine.assignment(yard.first)->unsent_s == 900);
  // As it was told when it was placed, whatever is said later.
  yard.engine.set_outage({.limit = seconds(60), .unsent = seconds(60)});
  CHECK(yard.control->assignment(yard.first, "tya_x", 0)->outage_s == kLimit.count());
  Yard local;
  local.submit("run-1");
  local.control->tick();
  CHECK(local.engine.assignment(yard.first)->outage_s == 0);
}

TEST_CASE("a node that is cut off is not replaced before it has stopped by itself") {
  CutOff yard;
  yard.pass(kLimit);
  CHECK(yard.status("run-1") == RunStatus::running);
  CHECK(yard.engine.live() == std::vector{yard.first});  // Nor killed: it may be at work.
  yard.pass(engine::kOutageMargin - seconds(120));
  CHECK(yard.run("run-1").life.attempt == 1);
  yard.pass(seconds(300));
  const Run run = yard.run("run-1");
  CHECK(run.life.attempt == 2);
  CHECK(run.attempts.front().end->cause == EndCause::evicted);
  CHECK(run.attempts.front().end->error.find("the outage limit of 4:00:00") != std::string::npos);
}

TEST_CASE("a shorter limit of the compute does not shorten that of an attempt under way") {
  CutOff yard;
  yard.engine.set_outage({.limit = seconds(60), .unsent = seconds(60)});
  yard.restart();
  yard.pass(kLimit);
  CHECK(yard.run("run-1").life.attempt == 1);
}

TEST_CASE("a node that is cut off is replaced as soon as the engine says that its job is gone") {
  CutOff yard;
  yard.pass(seconds(1200));
  yard.engine.tell(yard.first, {.why = "a node of it failed on n1 (NODE_FAIL)", .evicted = true});
  yard.control->tick();
  CHECK(yard.run("run-1").life.attempt == 2);
}

TEST_CASE("a cut-off run that is cancelled ends when the engine has ended its job") {
  CutOff yard;
  bool killed = false;
  yard.engine.set_hooks({.placed = {}, .killed = [&](const AttemptId&) { killed = true; }});
  yard.pass(seconds(900));
  CHECK_FALSE(killed);
  REQUIRE(yard.control->cancel(RunId{"run-1"}, "ada"));
  yard.pass(seconds(120));
  CHECK(killed);
  CHECK(yard.status("run-1") == RunStatus::canceled);
}
