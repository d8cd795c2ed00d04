#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "engine/engine.h"

namespace trainyard::control {

// Where others leave word for the loop: that there is something to do, and which supervisors are
// gone. Thread-safe.
class Bell {
 public:
  struct Gone {
    AttemptId attempt;
    engine::Engine::Going going;
  };

  void ring();
  void note_gone(const AttemptId& attempt, const engine::Engine::Going& going);
  // The first of them, and whether there are more.
  std::pair<std::vector<Gone>, bool> take_gone(size_t max);
  // Until somebody rings, `longest` has passed or `stop` is requested.
  void wait(microseconds longest, const std::stop_token& stop);

 private:
  std::mutex mutex_;
  std::condition_variable_any rung_;
  bool ringing_ = false;
  std::deque<Gone> gone_;
};

}  // namespace trainyard::control
