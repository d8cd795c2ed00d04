#include "http/parking.h"

#include <doctest/doctest.h>

#include <thread>

namespace trainyard::http {

namespace {

struct Idle : Job {
  void work(std::span<char>) override {}
};

SteadyTime at(int s) { return SteadyTime(seconds(s)); }

}  // namespace

TEST_CASE("a waiter is taken by its key, once") {
  ParkingLot lot;
  const auto a = std::make_shared<Idle>();
  const auto b = std::make_shared<Idle>();
  REQUIRE(lot.park(a, "x", at(10), lot.epoch()));
  REQUIRE(lot.park(b, "y", at(10), lot.epoch()));
  CHECK(lot.size() == 2);
  CHECK(lot.take("z").empty());
  const auto taken = lot.take("x");
  REQUIRE(taken.size() == 1);
  CHECK(taken[0] == a);
  CHECK(lot.take("x").empty());
  CHECK(lot.take_one(b.get()) == b);
  CHECK(lot.take_one(b.get()) == nullptr);
  CHECK(lot.size() == 0);
}

TEST_CASE("a waiter is taken when its time has come") {
  ParkingLot lot;
  const auto early = std::make_shared<Idle>();
  const auto late = std::make_shared<Idle>();
  REQUIRE(lot.park(late, "x", at(20), 0));
  REQUIRE(lot.park(early, "x", at(10), 0));
  CHECK(lot.take_due(at(9)).empty());
  CHECK(lot.take_due(at(10)) == std::vector<ParkingLot::Waiter>{early});
  CHECK(lot.take_due(at(30)) == std::vector<ParkingLot::Waiter>{late});
}

TEST_CASE("what was notified after the look refuses the parking") {
  ParkingLot lot;
  const uint64_t before = lot.epoch();
  lot.take("x");
  CHECK_FALSE(lot.park(std::make_shared<Idle>(), "x", at(10), before));
  CHECK(lot.size() == 0);
  CHECK(lot.park(std::make_shared<Idle>(), "x", at(10), lot.epoch()));
}

TEST_CASE("a closed lot gives up its waiters and takes no more") {
  ParkingLot lot;
  REQUIRE(lot.park(std::make_shared<Idle>(), "x", at(10), 0));
  CHECK(lot.close().size() == 1);
  CHECK_FALSE(lot.park(std::make_shared<Idle>(), "x", at(10), lot.epoch()));
  CHECK(lot.size() == 0);
}

// Two threads play the game of handler and writer: the writer raises a number and notifies, the
// handler looks at it and parks when it is not new. After a lost wake-up it would stay parked.
TEST_CASE("no wake-up is lost between a look and its parking") {
  constexpr int kRounds = 20'000;
  ParkingLot lot;
  std::atomic<int> value{0};
  std::atomic<int> seen{0};
  const auto waiter = std::make_shared<Idle>();
  std::jthread handler([&] {
    for (int last = 0; last < kRounds;) {
      const uint64_t epoch = lot.epoch();
      const int now = value.load();
      if (now != last) {
        last = now;
        seen = now;
        continue;
      }
      if (!lot.park(waiter, "x", SteadyTime::max(), epoch)) continue;
      while (lot.size() != 0) std::this_thread::yield();
    }
  });
  const auto until = std::chrono::steady_clock::now() + seconds(60);
  bool lost = false;
  for (int i = 1; i <= kRounds && !lost; ++i) {
    value = i;
    lot.take("x");
    while (seen.load() != i && !lost) {
      std::this_thread::yield();
      lost = std::chrono::steady_clock::now() > until;
    }
  }
  CHECK_FALSE(lost);
  value = kRounds;
  lot.close();
}

}  // namespace trainyard::http
