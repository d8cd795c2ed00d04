#include "api/slow_lane.h"

namespace trainyard::api {
namespace {

// Some 100 bytes each. When they are this many all are forgotten: each costs one more first try.
constexpr size_t kRememberedMax = 1'000;

}  // namespace

std::optional<SlowLane::Place> SlowLane::enter() {
  const bool entered = state_.with([&](State& state) {
    if (state.taken >= places_) return false;
    ++state.taken;
    return true;
  });
  if (!entered) return std::nullopt;
  return std::optional<Place>(std::in_place, *this);
}

void SlowLane::leave() {
  state_.with([](State& state) { --state.taken; });
  left_();
}

void SlowLane::remember(const std::string& request) {
  state_.with([&](State& state) {
    if (state.slow.size() >= kRememberedMax) state.slow.clear();
    state.slow.insert(request);
  });
}

void SlowLane::forget(const std::string& request) {
  state_.with([&](State& state) { state.slow.erase(request); });
}

bool SlowLane::remembers(const std::string& request) {
  return state_.with([&](State& state) { return state.slow.contains(request); });
}

}  // namespace trainyard::api
