#include "base/clock.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/fake_clock.h"
#include "base/retry.h"

namespace trainyard {
namespace {

TEST_CASE("a time is written in UTC with microseconds and read back as it was") {
  const WallTime time(seconds(1'794'731'993) + microseconds(123));
  CHECK(format_time(time) == "2026-11-15T08:39:53.000123Z");
  CHECK(parse_time("2026-11-15T08:39:53.000123Z") == time);
  for (const int64_t micros :
       {int64_t{0}, int64_t{-1}, int64_t{999'999}, int64_t{4'102'444'800'000'001}}) {
    CHECK(parse_time(format_time(WallTime(microseconds(micros)))) ==
          WallTime(microseconds(micros)));
  }
}

TEST_CASE("a fraction of a second may be left out or have up to nine digits") {
  const WallTime whole(seconds(1'794'731'993));
  CHECK(parse_time("2026-11-15T08:39:53Z") == whole);
  CHECK(parse_time("2026-11-15T08:39:53.5Z") == whole + milliseconds(500));
  CHECK(parse_time("2026-11-15T08:39:53.123456789Z") == whole + microseconds(123'456));
}

TEST_CASE("what is not a time is refused") {
  for (const char* text :
       {"", "Z", "yesterday", "2026-11-15", "2026-11-15T08:39:53", "2026-11-15 08:39:53Z",
        "2026-13-15T08:39:53Z", "2026-02-30T08:39:53Z", "2026-11-15T24:00:00Z",
        "2026-11-15T08:60:00Z", "2026-11-15T08:39:53.Z", "2026-11-15T08:39:53.1234567890Z",
        "2026-11-15T08:39:53.12a4Z", "2026-11-15T08:39:53junkZ", "+026-11-15T08:39:53Z",
        "2026-11-15T08:39:53Z "}) {
    CAPTURE(text);
    const auto time = parse_time(text);
    REQUIRE(!time);
    CHECK(time.error().kind == ErrorKind::invalid);
  }
  CHECK(parse_time("2024-02-29T00:00:00Z").has_value());
}

TEST_CASE("a clock never starts before the newest time on record") {
  const WallTime future = MonotoneClock().wall() + std::chrono::hours(20);
  const MonotoneClock clock(future);
  const WallTime first = clock.wall();
  CHECK(first >= future);
  CHECK(first < future + std::chrono::minutes(1));
  CHECK(clock.wall() >= first);
}

TEST_CASE("a sleep ends at its time, at once for one gone by") {
  MonotoneClock clock;
  const SteadyTime start = clock.steady();
  CHECK_FALSE(clock.sleep_until(start - seconds(1), {}));
  CHECK_FALSE(clock.sleep_until(start + milliseconds(5), {}));
  CHECK(clock.steady() >= start + milliseconds(5));
}

TEST_CASE("a sleep ends when it is told to stop") {
  MonotoneClock clock;
  std::stop_source stop;
  bool stopped = false;
  std::jthread sleeper([&] {
    stopped = clock.sleep_until(clock.steady() + std::chrono::hours(1), stop.get_token());
  });
  stop.request_stop();
  sleeper.join();
  CHECK(stopped);
}

TEST_CASE("a fake clock moves only when it is told to") {
  FakeClock clock;
  const SteadyTime start = clock.steady();
  const WallTime wall = clock.wall();
  CHECK(clock.steady() == start);
  CHECK_FALSE(clock.sleep_until(start + seconds(10), {}));
  clock.advance(seconds(1));
  CHECK(clock.steady() == start + seconds(11));
  CHECK(clock.wall() == wall + seconds(11));
}

Status failing(ErrorKind kind) { return fail(kind, "no"); }

TEST_CASE("what is unavailable is tried again with doubled pauses, up to a limit") {
  FakeClock clock;
  const SteadyTime start = clock.steady();
  int calls = 0;
  const RetryPolicy policy{
      .attempts_max = 4, .delay_first = milliseconds(100), .delay_max = milliseconds(150)};
  const Status status = retry(clock, policy, {}, [&] {
    ++calls;
    return failing(ErrorKind::unavailable);
  });
  CHECK(status.error().kind == ErrorKind::unavailable);
  CHECK(calls == 4);
  CHECK(clock.steady() - start == milliseconds(100 + 150 + 150));
}

TEST_CASE("what cannot get better is not tried again") {
  FakeClock clock;
  for (const ErrorKind kind : {ErrorKind::invalid, ErrorKind::no_space, ErrorKind::conflict}) {
    int calls = 0;
    CHECK(!retry(clock, {}, {}, [&] {
      ++calls;
      return failing(kind);
    }));
    CHECK(calls == 1);
  }
}

TEST_CASE("a retry succeeds when a later try does, and stops when told to") {
  FakeClock clock;
  int calls = 0;
  CHECK(retry(clock, {}, {}, [&]() -> Status {
          if (++calls < 3) return failing(ErrorKind::unavailable);
          return {};
        }).has_value());
  CHECK(calls == 3);

  std::stop_source stop;
  stop.request_stop();
  calls = 0;
  CHECK(!retry(clock, {}, stop.get_token(), [&] {
    ++calls;
    return failing(ErrorKind::unavailable);
  }));
  CHECK(calls == 1);
}

TEST_CASE("one wrong time, on record or of the machine, does not stay") {
  using std::chrono::hours;
  const WallTime now = parse_time("2026-11-16T05:00:00Z").value();
  const WallTime far = parse_time("2099-01-01T00:00:00Z").value();
  const WallTime unset = parse_time("1970-01-01T00:01:00Z").value();
  // A restart begins with the newest time on record, unless that cannot be true.
  CHECK(choose_start(now, now + hours(1)) == now + hours(1));
  CHECK(choose_start(now, now - hours(1)) == now);
  CHECK(choose_start(now, far) == now);
  // A machine that does not know the time yet is not believed,
  CHECK(choose_start(unset, now) == now);
  CHECK(choose_time(unset, now) == now);
  // and once it does, it is; small steps change nothing.
  CHECK(choose_time(now, unset) == now);
  CHECK(choose_time(now, far) == now);
  CHECK(choose_time(now - hours(1), now) == now);
  CHECK(choose_time(now + hours(1), now) == now);
}

}  // namespace
}  // namespace trainyard
