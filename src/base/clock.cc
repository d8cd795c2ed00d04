#include "base/clock.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace trainyard {
namespace {

constexpr std::chrono::hours kStepMax{24};
// This program was written later: a clock that says less does not know the time yet.
constexpr WallTime kPlausible =
    std::chrono::sys_days(std::chrono::year(2026) / std::chrono::January / 1);

microseconds read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return seconds(now.tv_sec) + microseconds(now.tv_nsec / 1000);
}

}  // namespace

microseconds thread_cpu_time() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

WallTime choose_start(WallTime machine, WallTime newest_on_record) {
  if (machine >= kPlausible && newest_on_record - machine > kStepMax) return machine;
  return std::max(machine, newest_on_record);
}

WallTime choose_time(WallTime machine, WallTime carried_on) {
  const microseconds step = machine > carried_on ? machine - carried_on : carried_on - machine;
  return step > kStepMax && machine >= kPlausible ? machine : carried_on;
}

MonotoneClock::MonotoneClock(WallTime not_before)
    : offset_us_(
          (choose_start(WallTime(read_clock(CLOCK_REALTIME)), not_before).time_since_epoch() -
           read_clock(CLOCK_BOOTTIME))
              .count()) {}

WallTime MonotoneClock::wall() const {
  const microseconds boot = read_clock(CLOCK_BOOTTIME);
  const WallTime carried_on(boot + microseconds(offset_us_.load(std::memory_order_relaxed)));
  const WallTime time = choose_time(WallTime(read_clock(CLOCK_REALTIME)), carried_on);
  if (time != carried_on) offset_us_.store((time.time_since_epoch() - boot).count());
  return time;
}

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
  // Shape first: sscanf would take signs, spaces and what follows.
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  constexpr size_t kFractionMax = 9;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto refuse = [&] {
    return fail(ErrorKind::invalid, "'" + std::string(text.substr(0, 40)) +
                                        "' is not a time like 2026-11-15T08:39:53Z");
  };
  if (text.size() <= kShape.size() || text.back() != 'Z') return refuse();
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == '0' ? !digit(text[i]) : text[i] != kShape[i]) return refuse();
  }
  std::string_view fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  if (!fraction.empty()) {
    if (fraction.size() < 2 || fraction.size() > kFractionMax + 1 || fraction[0] != '.') {
      return refuse();
    }
    fraction.remove_prefix(1);
    if (!std::all_of(fraction.begin(), fraction.end(), digit)) return refuse();
  }
  const auto number = [&](size_t at, size_t length) {
    int value = 0;
    for (const char c : text.substr(at, length)) value = value * 10 + (c - '0');
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2);
  const int minute = number(14, 2);
  const int second = number(17, 2);
  // A leap second, 60, is the one after it to us, as it is to timegm().
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return refuse();
  int64_t micros = 0;
  for (size_t i = 0; i < 6; ++i)
    micros = micros * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
  return WallTime(std::chrono::sys_days(day)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + seconds(second) + microseconds(micros);
}

}  // namespace trainyard
