#include "cli/waiting.h"

#include <doctest/doctest.h>

namespace trainyard::cli {
namespace {

constexpr SteadyTime kStart{seconds(100)};
constexpr SteadyTime at_ms(int64_t ms) { return kStart + milliseconds(ms); }

TEST_CASE("a reason to wait becomes words of ours") {
  CHECK(waiting_line("waits for 2 CPUs: 1 free of 2; position 3") ==
        "waiting for 2 CPUs: 1 free of 2; position 3");
  CHECK(waiting_line("is being handed to Slurm") == "waiting: it is being handed to Slurm");
  CHECK(waiting_line("4 nodes needed, 1 idle") == "waiting: 4 nodes needed, 1 idle");
}

TEST_CASE("a short wait is worth no words") {
  Waiting waiting({}, kStart);
  CHECK(waiting.take("waits for its turn", at_ms(200)).empty());
  CHECK(waiting.over(at_ms(250)).empty());
  CHECK(waiting.take("waits for its turn", at_ms(400)) == "waiting for its turn\n");
  CHECK(waiting.take("waits for its turn", at_ms(9000)).empty());
}

TEST_CASE("where lines stay, the steps of a build are few, and its end is told") {
  Waiting waiting({}, kStart);
  CHECK(waiting.take("environment 8f31c0 is being built: resolving", at_ms(1000)) ==
        "waiting: environment 8f31c0 is being built: resolving\n");
  CHECK(waiting.take("environment 8f31c0 is being built: 1 of 31 packages", at_ms(2000)).empty());
  CHECK(waiting.take("environment 8f31c0 is being built: 9 of 31 packages", at_ms(11'000)) ==
        "waiting: environment 8f31c0 is being built: 9 of 31 packages\n");
  CHECK(waiting.take("4 nodes needed, 1 idle", at_ms(13'000)) ==
        "waiting: 4 nodes needed, 1 idle\n");
  CHECK(waiting.over(at_ms(14'000)) == "environment 8f31c0 was built in 12.0 s and is kept\n");
  CHECK(!waiting.take("environment 77a0b1 is being built", at_ms(15'000)).empty());
  CHECK(waiting.over(at_ms(16'000)) == "environment 77a0b1 was built in 1.0 s and is kept\n");
}

TEST_CASE("a build that a run did not outlive is not said to be kept") {
  Waiting waiting({}, kStart);
  CHECK(!waiting.take("environment 8f31c0 is being built", at_ms(1000)).empty());
  CHECK(waiting.over(at_ms(2000), Waiting::Then::ended).empty());
  CHECK(waiting.over(at_ms(2000)).empty());
  CHECK(!waiting.take("environment 8f31c0 is being built", at_ms(3000)).empty());
  // It starts, to fail of the environment.
  CHECK(waiting.take("is about to start", at_ms(4000)) == "waiting: it is about to start\n");
  CHECK(waiting.over(at_ms(5000), Waiting::Then::ended).empty());
}

TEST_CASE("on a terminal one line changes, is never wider, and goes") {
  Waiting waiting({.terminal = true, .width = 24}, kStart);
  CHECK(waiting.take("waits for a GPU", at_ms(500)) == "\r\x1b[Kwaiting for a GPU");
  CHECK(waiting.take("waits for 2 CPUs: 1 free of 2; position 3", at_ms(600)) ==
        "\r\x1b[Kwaiting for 2 CPUs: 1 f");
  CHECK(waiting.take("environment 8f31c0 is being built", at_ms(700)).starts_with("\r\x1b[K"));
  CHECK(waiting.take("is about to start", at_ms(1700)) == "\r\x1b[Kwaiting: it is about to");
  CHECK(waiting.over(at_ms(1800)) == "\r\x1b[Kenvironment 8f31c0 was built in 1.0 s and is kept\n");
  CHECK(waiting.over(at_ms(1900)).empty());
}

}  // namespace
}  // namespace trainyard::cli
