#pragma once

#include <atomic>

#include "base/clock.h"

namespace trainyard {

// A clock that stands still until it is told to go on. sleep_until() moves it, so code that waits
// does not: for tests and the simulator.
class FakeClock : public Clock {
 public:
  WallTime wall() const override { return WallTime(wall_.load()); }
  SteadyTime steady() const override { return SteadyTime(steady_.load()); }
  bool sleep_until(SteadyTime when, std::stop_token stop) override {
    if (stop.stop_requested()) return true;
    if (when > steady()) advance(when - steady());
    return false;
  }
  void advance(microseconds by) {
    wall_ = wall_.load() + by;
    steady_ = steady_.load() + by;
  }

 private:
  std::atomic<microseconds> wall_{std::chrono::hours(24 * 365 * 50)};
  std::atomic<microseconds> steady_{seconds(1000)};
};

}  // namespace trainyard
