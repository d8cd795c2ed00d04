#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"

namespace trainyard {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::microseconds>;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The only way to learn the time or to wait. Tests hand in a FakeClock (base/fake_clock.h). What is
// leased or waited for is steady time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // The time written into records and shown to people. It never goes back and its differences are
  // true durations, whatever happens to the machine's clock: see MonotoneClock.
  virtual WallTime wall() const = 0;
  virtual SteadyTime steady() const = 0;
  // Returns early, and true, when `stop` is requested.
  virtual bool sleep_until(SteadyTime when, std::stop_token stop) = 0;
};

// The CPU time that this thread has used: how much work something is, on a busy machine too.
microseconds thread_cpu_time();

// The machine's clock read at the start and carried on by the boot clock (which counts a suspended
// laptop's sleep too). So a step of the wall clock by an hour changes no duration and no order.
// `not_before` is the newest time already on record: a restart never hands out an older one.
//
// A difference of more than a day is no step but a mistake: a machine that started before it knew
// the time, or one wrong time on record. Then the machine's clock is believed, once it is
// plausible, and time may go back.
class MonotoneClock : public Clock {
 public:
  explicit MonotoneClock(WallTime not_before = WallTime{});
  WallTime wall() const override;
  SteadyTime steady() const override;
  bool sleep_until(SteadyTime when, std::stop_token stop) override;

 private:
  mutable std::atomic<int64_t> offset_us_;  // From steady to wall time.
};

// The time to begin with, and to go on with: decided here, by what the machine's clock says.
WallTime choose_start(WallTime machine, WallTime newest_on_record);
WallTime choose_time(WallTime machine, WallTime carried_on);

// The sooner of two, where the first may not be set yet.
inline void earlier(std::optional<SteadyTime>& first, SteadyTime time) {
  if (!first || time < *first) first = time;
}

// RFC 3339 in UTC with microseconds: 2026-11-15T08:39:53.000123Z.
std::string format_time(WallTime time);
Result<WallTime> parse_time(std::string_view text);

}  // namespace trainyard
