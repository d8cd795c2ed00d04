#include <algorithm>

#include "control/yard.h"

using namespace trainyard;
using namespace trainyard::control;

namespace {

constexpr int kHistory = 100'000;
constexpr int kRounds = 300;
// The bench has the strict bar; here other work on the machine must not make it fail.
constexpr double kRatioMax = 2.0;

// A home on its own, without a disk to wait for.
struct Plain {
  TempDir dir;
  MonotoneClock clock;
  NullLog log;
  engine::FakeEngine engine{{.cpus = 2, .memory_bytes = kGb}};
  std::unique_ptr<store::Store> store;
  std::unique_ptr<Control> control;

  explicit Plain(int finished) {
    auto opened = store::Store::open(dir.path() / "trainyard.db", clock, {.sync = false});
    REQUIRE(opened);
    store = *std::move(opened);
    if (finished > 0) REQUIRE(store::add_finished_runs(*store, finished));
    control = Control::create({.clock = clock, .store = *store, .engine = engine, .log = log});
    REQUIRE(control->recover());
  }
  microseconds timed(const std::function<bool()>& call) {
    const SteadyTime start = clock.steady();
    REQUIRE(call());
    return clock.steady() - start;
  }
};

microseconds median(std::vector<microseconds>& times) {
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

// One with history and one without, in turns, so that both see the same machine.
double ratio(Plain& full, Plain& empty, const std::function<bool(Plain&)>& call) {
  std::vector<microseconds> with;
  std::vector<microseconds> without;
  for (int round = 0; round < kRounds; ++round) {
    with.push_back(full.timed([&] { return call(full); }));
    without.push_back(empty.timed([&] { return call(empty); }));
  }
  return static_cast<double>(median(with).count()) / static_cast<double>(median(without).count());
}

}  // namespace

TEST_CASE("100,000 finished runs make neither a submission nor a list slower") {
  Plain full(kHistory);
  Plain empty(0);
  const double submitting = ratio(full, empty, [](Plain& home) {
    return home.control->submit({new_run_id(), store::plain_spec(), "ada"}).has_value();
  });
  const double listing = ratio(full, empty, [](Plain& home) {
    return home.control->runs({.workspace = "default", .limit = 20}).has_value();
  });
  const double finding =
      ratio(full, empty, [](Plain& home) { return home.store->find_run("z").has_value() || true; });
  MESSAGE("submit " << submitting << "x, list " << listing << "x, find " << finding << "x");
  CHECK(submitting < kRatioMax);
  CHECK(listing < kRatioMax);
  CHECK(finding < kRatioMax);
  CHECK(full.control->runs({.workspace = "default", .status = "Failed", .limit = 20})->size() ==
        20);
}
