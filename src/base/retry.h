#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard {

struct RetryPolicy {
  int attempts_max = 5;
  milliseconds delay_first{200};
  milliseconds delay_max{10'000};
};

// Calls `f` until it succeeds, fails with anything but `unavailable`, or has been tried enough; the
// pause doubles each time.
template <class F>
auto retry(Clock& clock, const RetryPolicy& policy, std::stop_token stop, F&& f) -> decltype(f()) {
  milliseconds delay = policy.delay_first;
  for (int attempt = 1;; ++attempt) {
    auto result = f();
    if (result || result.error().kind != ErrorKind::unavailable) return result;
    if (attempt >= policy.attempts_max) return result;
    if (clock.sleep_until(clock.steady() + delay, stop)) return result;
    delay = std::min(delay * 2, policy.delay_max);
  }
}

}  // namespace trainyard
