#pragma once

#include <optional>

#include "base/clock.h"

namespace trainyard::supervisor {

enum class StopStep { none, terminate_first, terminate_group, kill_all };

// How ranks are stopped: SIGTERM to each rank's first process at once, so that a script can save
// while its data loaders live; to the rest of its process group 5 s before the end of the grace, or
// at half of a short one; SIGKILL to everything at its end. No I/O, no clock.
class StopPlan {
 public:
  StopPlan(SteadyTime asked, seconds grace) : asked_(asked), grace_(grace) {}

  // The step that is due now and was not handed out yet. Steps that were missed are left out.
  StopStep next(SteadyTime now);
  // When next() has something again; absent after the last.
  std::optional<SteadyTime> due() const;

 private:
  SteadyTime time_of(StopStep step) const;
  SteadyTime asked_;
  microseconds grace_;
  StopStep done_ = StopStep::none;
};

}  // namespace trainyard::supervisor
