#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

namespace trainyard {

// A value that can only be touched while its lock is held.
//
//   Guarded<std::map<RunId, Lease>> leases_;
//   leases_.with([&](auto& leases) { leases.erase(id); });
template <class T>
class Guarded {
 public:
  template <class... Args>
  explicit Guarded(Args&&... args) : value_(std::forward<Args>(args)...) {}

  template <class F>
  decltype(auto) with(F&& f) {
    std::lock_guard lock(mutex_);
    return std::forward<F>(f)(value_);
  }

 private:
  std::mutex mutex_;
  T value_;
};

}  // namespace trainyard
