#include <algorithm>
#include <span>

#include "control/all_runs.h"

namespace trainyard::control {
namespace {

constexpr seconds kSupervisorEnds{30};  // From its last report to its own end.
constexpr int kReleaseTriesMax = 5;     // Then it waits for the next start of the server.
constexpr size_t kMarksMax = 256;       // In one transaction: bounds how long others wait.

}  // namespace

// A supervisor that has sent its last report still takes a moment to end; its folder is removed
// after that.
void AllRuns::release_ended() {
  const SteadyTime now = parts_.clock.steady();
  std::vector<Leaving> leaving = leaving_.with([](auto& all) { return std::exchange(all, {}); });
  std::vector<AttemptId> released;
  std::vector<Leaving> later;
  for (Leaving& left : leaving) {
    const std::shared_ptr<engine::Engine> engine = engine_of(left.queue);
    if (!engine) {  // Its target is gone, and all that was there with it.
      released.push_back(left.attempt);
      continue;
    }
    if (engine->inspect(left.attempt) == engine::Placement::live) {
      if (now - left.since < kSupervisorEnds) {
        later.push_back(left);
        continue;
      }
      static_cast<void>(engine->kill(left.attempt).has_value());
    }
    if (const Status done = engine->release(left.attempt); done) {
      released.push_back(left.attempt);
    } else if (++left.tries < kReleaseTriesMax) {
      later.push_back(left);
    } else {
      parts_.log.warn("release failed",
                      {{"attempt", left.attempt.str()}, {"error", done.error().message}});
    }
  }
  leaving_.with([&](auto& all) { all.insert(all.end(), later.begin(), later.end()); });
  const std::span all(released);
  for (size_t i = 0; i < all.size(); i += kMarksMax) {
    const auto some = all.subspan(i, std::min(kMarksMax, all.size() - i));
    const Status marked =
        parts_.store.write(Durable::no, [&](db::Transaction& transaction) -> Status {
          for (const AttemptId& attempt : some) TRY(store::mark_released(transaction, attempt));
          return {};
        });
    // Not marked, it is released once more at the next start: harmless.
    if (!marked) parts_.log.warn("release not kept", {{"error", marked.error().message}});
  }
}

}  // namespace trainyard::control
