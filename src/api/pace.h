#pragma once

#include <stop_token>
#include <utility>

#include "base/clock.h"

namespace trainyard::api {

// Then others have the disk and the processor for kRestPerWork times as long.
inline constexpr milliseconds kWorkSlice{4};
inline constexpr int kRestPerWork = 3;

// Works a little and rests longer, so that a large collection does not slow the others down.
class Pace {
 public:
  Pace(Clock& clock, std::stop_token stop) : clock_(clock), stop_(std::move(stop)) {}

  // False: to stop.
  bool rest() {
    const microseconds worked = clock_.steady() - since_;
    if (worked >= kWorkSlice) {
      clock_.sleep_until(clock_.steady() + worked * kRestPerWork, stop_);
      since_ = clock_.steady();
    }
    return !stop_.stop_requested();
  }

 private:
  Clock& clock_;
  const std::stop_token stop_;
  SteadyTime since_ = clock_.steady();
};

}  // namespace trainyard::api
