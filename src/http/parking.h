#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "http/workers.h"

namespace trainyard::http {

// Jobs that wait for a key or a time, without a thread. Whoever takes one out owns its next step.
// No wake-up is lost: what is notified after a waiter has begun to look, and before it is parked,
// refuses its parking. Thread-safe.
class ParkingLot {
 public:
  using Waiter = Workers::Ref;

  // To be read before the look that may lead to park().
  uint64_t epoch() const { return epoch_.load(); }
  // False: `key` was notified since `epoch`, look again (or the lot is closed).
  bool park(Waiter waiter, std::string key, SteadyTime until, uint64_t epoch);

  // Notifies: takes out those who wait for `key`. Without a lock when nobody waits at all.
  std::vector<Waiter> take(std::string_view key);
  std::vector<Waiter> take_due(SteadyTime now);
  // Null when it is not here, or no longer.
  Waiter take_one(Job* waiter);
  // Takes out all; from now on park() refuses.
  std::vector<Waiter> close();

  size_t size() const { return count_.load(); }

 private:
  struct Spot {
    Waiter waiter;
    std::string key;
    SteadyTime until{};
  };

  std::atomic<uint64_t>& last_notice(std::string_view key);
  Waiter remove(Job* waiter);

  std::atomic<uint64_t> epoch_{0};
  std::atomic<size_t> count_{0};
  // When a key was last notified, for as many keys as there are: two that fall on one place only
  // make each other look again.
  std::array<std::atomic<uint64_t>, 1024> notices_{};

  std::mutex mutex_;
  bool closed_ = false;
  std::unordered_map<Job*, Spot> spots_;
  std::unordered_map<std::string, std::unordered_set<Job*>> by_key_;
  std::set<std::pair<SteadyTime, Job*>> by_time_;
};

}  // namespace trainyard::http
