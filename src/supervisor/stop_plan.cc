#include "supervisor/stop_plan.h"

#include "base/check.h"

namespace trainyard::supervisor {
namespace {

constexpr seconds kGroupBeforeEnd{5};

StopStep after(StopStep step) {
  switch (step) {
    case StopStep::none:
      return StopStep::terminate_first;
    case StopStep::terminate_first:
      return StopStep::terminate_group;
    case StopStep::terminate_group:
    case StopStep::kill_all:
      return StopStep::kill_all;
  }
  return StopStep::kill_all;
}

}  // namespace

StopStep StopPlan::next(SteadyTime now) {
  StopStep due_now = StopStep::none;
  while (done_ != StopStep::kill_all && time_of(after(done_)) <= now) {
    done_ = after(done_);
    due_now = done_;
  }
  return due_now;
}

std::optional<SteadyTime> StopPlan::due() const {
  if (done_ == StopStep::kill_all) return std::nullopt;
  return time_of(after(done_));
}

SteadyTime StopPlan::time_of(StopStep step) const {
  switch (step) {
    case StopStep::none:
    case StopStep::terminate_first:
      return asked_;
    case StopStep::terminate_group:
      return asked_ + (grace_ < 2 * kGroupBeforeEnd ? grace_ / 2 : grace_ - kGroupBeforeEnd);
    case StopStep::kill_all:
      return asked_ + grace_;
  }
  return asked_;
}

}  // namespace trainyard::supervisor
