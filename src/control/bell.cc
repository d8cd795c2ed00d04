#include "control/bell.h"

#include <algorithm>
#include <iterator>

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

std::pair<std::vector<Bell::Gone>, bool> Bell::take_gone(size_t max) {
  std::lock_guard lock(mutex_);
  const auto end = gone_.begin() + static_cast<ptrdiff_t>(std::min(max, gone_.size()));
  std::vector<Gone> first(std::make_move_iterator(gone_.begin()), std::make_move_iterator(end));
  gone_.erase(gone_.begin(), end);
  return {std::move(first), !gone_.empty()};
}

void Bell::wait(microseconds longest, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  rung_.wait_for(lock, stop, longest, [&] { return ringing_; });
  ringing_ = false;
}

}  // namespace trainyard::control
