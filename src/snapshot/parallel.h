#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/guarded.h"
#include "base/result.h"

namespace trainyard::snapshot {

// Calls `work(begin, end)` for neighbouring stretches of 0..count on up to `threads` threads, this
// one included. After an error nothing new is begun; the first one is returned.
inline Status in_parallel(size_t count, int threads, size_t stretch,
                          const std::function<Status(size_t begin, size_t end)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Guarded<std::optional<Error>> first;
  const auto run = [&] {
    while (!failed) {
      const size_t begin = next.fetch_add(stretch);
      if (begin >= count) return;
      Status done = work(begin, std::min(begin + stretch, count));
      if (done) continue;
      failed = true;
      first.with([&](auto& error) {
        if (!error) error = std::move(done).error();
      });
    }
  };
  {
    const size_t useful = std::min<size_t>(static_cast<size_t>(std::max(threads, 1)),
                                           (count + stretch - 1) / stretch);
    std::vector<std::jthread> others;
    for (size_t i = 1; i < useful; ++i) others.emplace_back(run);
    run();
  }
  std::optional<Error> error = first.with([](auto& held) { return std::move(held); });
  if (error) return std::unexpected(*std::move(error));
  return {};
}

}  // namespace trainyard::snapshot
