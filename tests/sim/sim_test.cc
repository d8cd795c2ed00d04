#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "world.h"

// Whole lives of many runs with seeded faults. SEED=123 replays one seed exactly, SIM_TRACE=1 shows
// it; SEEDS=1000-9999 runs others than the usual ones.
using namespace trainyard;
using sim::World;

namespace {

struct Range {
  int64_t first = 1;
  int64_t last = 250;
};

Range seeds() {
  if (const char* one = std::getenv("SEED"); one != nullptr && *one != '\0') {
    const auto seed = parse_int(one, "SEED");
    REQUIRE_MESSAGE(seed, "SEED is not a number");
    return {*seed, *seed};
  }
  if (const char* range = std::getenv("SEEDS"); range != nullptr && *range != '\0') {
    const auto parts = split(range, '-');
    REQUIRE(parts.size() == 2);
    const auto first = parse_int(parts[0], "SEEDS");
    const auto last = parse_int(parts[1], "SEEDS");
    REQUIRE((first && last));
    return {*first, *last};
  }
  return {};
}

}  // namespace

TEST_CASE("whatever goes wrong, every run ends once and nothing is lost or counted twice") {
  const Range range = seeds();
  std::printf("sim: seeds %lld to %lld; replay one with SEED=n\n",
              static_cast<long long>(range.first), static_cast<long long>(range.last));
  World::Tally all;
  for (int64_t seed = range.first; seed <= range.last; ++seed) {
    World world(static_cast<uint64_t>(seed));
    const std::string broken = world.live();
    CHECK_MESSAGE(broken.empty(), "SEED=", seed, ": ", broken);
    const World::Tally& tally = world.tally();
    all.runs += tally.runs;
    all.steps += tally.steps;
    all.restarts += tally.restarts;
    all.lost += tally.lost;
    all.reports += tally.reports;
    all.fenced += tally.fenced;
    all.rolled_back += tally.rolled_back;
    all.records += tally.records;
    all.children += tally.children;
    all.retries += tally.retries;
    for (const auto& [status, count] : tally.ends) all.ends[status] += count;
  }
  std::printf(
      "sim: %d runs, %d children, %d steps, %d restarts (%d with the database rolled back), "
      "%d supervisors killed, %d reports, "
      "%d fenced, %d records, %d retries; %d completed, %d failed, %d canceled\n",
      all.runs, all.children, all.steps, all.restarts, all.rolled_back, all.lost, all.reports,
      all.fenced, all.records, all.retries, all.ends[RunStatus::completed],
      all.ends[RunStatus::failed], all.ends[RunStatus::canceled]);
}

TEST_CASE("a seed replays exactly") {
  const auto lived = [](uint64_t seed) {
    World world(seed);
    const std::string broken = world.live();
    const World::Tally& tally = world.tally();
    return std::tuple(broken, tally.steps, tally.reports, tally.records, tally.ends);
  };
  CHECK(lived(7) == lived(7));
  CHECK(lived(7) != lived(8));
}
