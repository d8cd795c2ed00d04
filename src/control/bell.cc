#include "control/bell.h"

namespace trainyard::control {

void Bell::ring() {
  {
    std::lock_guard lock(mutex_);
    ringing_ = true;
  }
  rung_.notify_one();
}

void Bell::note_gone(const AttemptId& attempt, const engine::Engine::Going& going) {
  {
    std::lock_guard lock(mutex_);
    gone_.push_back({attempt, going});
    ringing_ = true;
  }
  rung_.notify_one();
}

std::vector<Bell::Gone> Bell::take_gone() {
  std::lock_guard lock(mutex_);
  return std::exchange(gone_, {});
}

void Bell::wait(microseconds longest, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  rung_.wait_for(lock, stop, longest, [&] { return ringing_; });
  ringing_ = false;
}

}  // namespace trainyard::control
