#include "supervisor/history.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

Report report(ReportKind kind, int64_t seq) {
  Report report;
  report.kind = kind;
  report.seq = seq;
  return report;
}

std::string told(ReportKind kind, int64_t seq) {
  return report_record(report(kind, seq), SteadyTime(seconds(5)), WallTime(seconds(7)));
}

}  // namespace

TEST_CASE("the journal of nobody says that nothing began") {
  const History history = read_history({});
  CHECK_FALSE(history.begun);
  CHECK(history.seq == 0);
  CHECK_FALSE(history.conclusive(1));
}

TEST_CASE("everything that was written comes back") {
  const runtime::Leftovers leftovers{runtime::Isolation::sweep, 12, 345, "boot", "mark"};
  Facts outputs;
  outputs.outputs = "abc";
  outputs.outputs_error = "not kept";
  const History history = read_history({
      begin_record(11, "sup_a", leftovers),
      told(ReportKind::preparing, 1),
      told(ReportKind::starting, 2),
      told(ReportKind::running, 3),
      "{\"t\":\"sample\",\"seq\":4}",  // Of an earlier version.
      told(ReportKind::finalizing, 5),
      exit_record({1, 137, 9}),
      stop_record({EndCause::time_limit, "too long"}),
      dead_record({1.5, 0, 4096}),
      outputs_record(outputs, "epoch"),
      "{\"t\":\"a later version's\"}",
      "no JSON",
  });
  CHECK(history.begun);
  CHECK(history.supervisor == 11);
  CHECK(history.leftovers.isolation == runtime::Isolation::sweep);
  CHECK(history.leftovers.init == 12);
  CHECK(history.leftovers.init_start_ticks == 345);
  CHECK(history.leftovers.boot == "boot");
  CHECK(history.leftovers.mark == "mark");
  CHECK(history.instance == "sup_a");
  CHECK(history.seq == 5);
  REQUIRE(history.reports.size() == 4);
  Report starting = report(ReportKind::starting, 2);
  starting.after = 1;
  CHECK(history.reports[1].report == starting);
  CHECK(history.reports[3].report.after == 3);
  CHECK(history.reports[1].steady == SteadyTime(seconds(5)));
  CHECK(history.reports[1].wall == WallTime(seconds(7)));
  CHECK(history.told(ReportKind::running));
  CHECK_FALSE(history.told(ReportKind::ended));
  REQUIRE(history.facts.exits.size() == 1);
  CHECK(history.facts.exits[0] == RankExit{1, 137, 9});
  CHECK(history.facts.stop == Stop{EndCause::time_limit, "too long"});
  CHECK(history.facts.all_dead);
  CHECK(history.facts.cpu_seconds == doctest::Approx(1.5));
  CHECK(history.facts.memory_peak_bytes == 4096);
  CHECK(history.outputs_settled);
  CHECK(history.outputs_epoch == "epoch");
  CHECK(history.facts.outputs == "abc");
  CHECK(history.facts.outputs_error == "not kept");
}

TEST_CASE("user code may have run from `starting` on, unless its start failed") {
  CHECK_FALSE(read_history({told(ReportKind::preparing, 1)}).facts.ranks_started);
  CHECK(read_history({told(ReportKind::starting, 2)}).facts.ranks_started);
  const PrepareFailure failure{EndCause::prepare_failed, 127, "program 'x' was not found"};
  const History failed =
      read_history({told(ReportKind::starting, 2), failure_record(failure, false)});
  CHECK_FALSE(failed.facts.ranks_started);
  CHECK(failed.facts.prepare_failure->exit_code == 127);
  CHECK(failed.conclusive(1));
}

TEST_CASE("an end is known when all ranks ended, one failed, or we stopped them") {
  CHECK_FALSE(read_history({exit_record({0, 0, 0})}).conclusive(2));
  CHECK(read_history({exit_record({0, 0, 0}), exit_record({1, 0, 0})}).conclusive(2));
  CHECK(read_history({exit_record({0, 4, 0})}).conclusive(2));
  CHECK(read_history({stop_record({EndCause::canceled, "x"})}).conclusive(2));
}
