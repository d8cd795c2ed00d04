#include "supervisor/stop_plan.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {
constexpr SteadyTime kAsked{seconds(100)};
}

TEST_CASE("with 30 s of grace: the first process at once, the groups at 25 s, all at 30 s") {
  StopPlan plan(kAsked, seconds(30));
  CHECK(plan.next(kAsked) == StopStep::terminate_first);
  CHECK(plan.next(kAsked) == StopStep::none);
  CHECK(plan.due() == kAsked + seconds(25));
  CHECK(plan.next(kAsked + milliseconds(24'999)) == StopStep::none);
  CHECK(plan.next(kAsked + seconds(25)) == StopStep::terminate_group);
  CHECK(plan.due() == kAsked + seconds(30));
  CHECK(plan.next(kAsked + seconds(30)) == StopStep::kill_all);
  CHECK_FALSE(plan.due());
  CHECK(plan.next(kAsked + seconds(99)) == StopStep::none);
}

TEST_CASE("a grace shorter than 10 s gives the groups its second half") {
  StopPlan plan(kAsked, seconds(4));
  CHECK(plan.next(kAsked) == StopStep::terminate_first);
  CHECK(plan.due() == kAsked + seconds(2));
  CHECK(plan.next(kAsked + seconds(2)) == StopStep::terminate_group);
  CHECK(plan.due() == kAsked + seconds(4));
}

TEST_CASE("without grace, or woken late, everything is killed at once") {
  StopPlan none(kAsked, seconds(0));
  CHECK(none.next(kAsked) == StopStep::kill_all);
  StopPlan late(kAsked, seconds(30));
  CHECK(late.next(kAsked + seconds(40)) == StopStep::kill_all);
}
