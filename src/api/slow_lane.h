#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/guarded.h"

namespace trainyard::api {

// Lets few slow requests work at once, so that however many there are, workers, connections to the
// database and CPUs stay free for the others. Thread-safe.
class SlowLane {
 public:
  // `left` is called, without a lock, when a place becomes free.
  SlowLane(int places, std::function<void()> left) : places_(places), left_(std::move(left)) {}

  // A place in the lane, until it is destroyed.
  class Place {
   public:
    explicit Place(SlowLane& lane) : lane_(&lane) {}
    Place(Place&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (lane_ != nullptr) lane_->leave();
    }

   private:
    SlowLane* lane_;
  };
  // None: all are taken. The caller parks its request until `left` is called.
  std::optional<Place> enter();

  // Requests that were slow go straight to the lane when they come again, until they are quick.
  void remember(const std::string& request);
  void forget(const std::string& request);
  bool remembers(const std::string& request);

 private:
  struct State {
    int taken = 0;
    std::set<std::string> slow;
  };

  void leave();

  const int places_;
  const std::function<void()> left_;
  Guarded<State> state_;
};

}  // namespace trainyard::api
