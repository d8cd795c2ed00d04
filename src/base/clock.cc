#include "base/clock.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>

namespace trainyard {
namespace {

microseconds read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return seconds(now.tv_sec) + microseconds(now.tv_nsec / 1000);
}

}  // namespace

MonotoneClock::MonotoneClock(WallTime not_before)
    : wall_start_(std::max(WallTime(read_clock(CLOCK_REALTIME)), not_before)),
      steady_start_(read_clock(CLOCK_BOOTTIME)) {}

WallTime MonotoneClock::wall() const { return wall_start_ + (steady() - steady_start_); }

SteadyTime MonotoneClock::steady() const { return SteadyTime(read_clock(CLOCK_BOOTTIME)); }

bool MonotoneClock::sleep_until(SteadyTime when, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const microseconds left = when - steady();
    if (left <= microseconds(0)) return false;
    changed.wait_for(lock, stop, left, [] { return false; });
  }
  return true;
}

std::string format_time(WallTime time) {
  const auto whole = std::chrono::floor<seconds>(time);
  const time_t epoch = std::chrono::system_clock::to_time_t(whole);
  tm parts{};
  gmtime_r(&epoch, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (time - whole).count());
}

Result<WallTime> parse_time(std::string_view text) {
  tm parts{};
  char fraction[10] = "";
  const std::string copy(text);
  const int read =
      std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%9[0-9]", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, fraction);
  if (read < 6 || text.empty() || text.back() != 'Z') {
    return fail(ErrorKind::invalid, "'" + copy + "' is not a time like 2026-11-15T08:39:53Z");
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  std::string digits = std::string(fraction) + "000000";
  digits.resize(6);
  return WallTime(seconds(timegm(&parts)) + microseconds(std::stol(digits)));
}

}  // namespace trainyard
