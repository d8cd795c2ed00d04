#include "http/parking.h"

#include <functional>

namespace trainyard::http {

bool ParkingLot::park(Waiter waiter, std::string key, SteadyTime until, uint64_t epoch) {
  std::lock_guard lock(mutex_);
  // Counted first, looked after: take() does it the other way round, so that one of the two sees
  // the other, whatever their order.
  ++count_;
  if (closed_ || last_notice(key).load() > epoch) {
    --count_;
    return false;
  }
  Job* const place = waiter.get();
  by_key_[key].insert(place);
  by_time_.emplace(until, place);
  spots_.emplace(place, Spot{std::move(waiter), std::move(key), until});
  return true;
}

std::vector<ParkingLot::Waiter> ParkingLot::take(std::string_view key) {
  const uint64_t now = epoch_.fetch_add(1) + 1;
  std::atomic<uint64_t>& notice = last_notice(key);
  // Only upwards: of two notices at once the later one must stay.
  uint64_t before = notice.load();
  while (before < now && !notice.compare_exchange_weak(before, now)) {
  }
  std::vector<Waiter> taken;
  if (count_.load() == 0) return taken;

  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(std::string(key));
  if (found == by_key_.end()) return taken;
  const std::vector<Job*> waiters(found->second.begin(), found->second.end());
  taken.reserve(waiters.size());
  for (Job* waiter : waiters) taken.push_back(remove(waiter));
  return taken;
}

std::vector<ParkingLot::Waiter> ParkingLot::take_due(SteadyTime now) {
  std::vector<Waiter> taken;
  if (count_.load() == 0) return taken;
  std::lock_guard lock(mutex_);
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    taken.push_back(remove(by_time_.begin()->second));
  }
  return taken;
}

ParkingLot::Waiter ParkingLot::take_one(Job* waiter) {
  std::lock_guard lock(mutex_);
  return remove(waiter);
}

std::vector<ParkingLot::Waiter> ParkingLot::close() {
  std::vector<Waiter> taken;
  std::lock_guard lock(mutex_);
  closed_ = true;
  while (!spots_.empty()) taken.push_back(remove(spots_.begin()->first));
  return taken;
}

std::atomic<uint64_t>& ParkingLot::last_notice(std::string_view key) {
  return notices_[std::hash<std::string_view>()(key) % notices_.size()];
}

ParkingLot::Waiter ParkingLot::remove(Job* waiter) {
  const auto found = spots_.find(waiter);
  if (found == spots_.end()) return nullptr;
  Spot spot = std::move(found->second);
  spots_.erase(found);
  by_time_.erase({spot.until, waiter});
  const auto same_key = by_key_.find(spot.key);
  same_key->second.erase(waiter);
  if (same_key->second.empty()) by_key_.erase(same_key);
  --count_;
  return std::move(spot.waiter);
}

}  // namespace trainyard::http
