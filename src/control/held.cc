// Runs that wait for their environment before they are given a place: a node that waits for a build
// is a node that others could use.
#include <algorithm>

#include "control/all_runs.h"

namespace trainyard::control {
namespace {

constexpr size_t kHeldMax = 256;  // In one transaction: bounds how long others wait.

}  // namespace

// On this machine a supervisor waits for it: that costs nobody a node, and a look less.
std::string AllRuns::held_for(const RunSpec& spec) {
  const std::string& hash = spec.environment.hash;
  if (hash.empty() || spec.interactive || queue_of(spec) == kLocalQueue) return {};
  const std::shared_ptr<engine::Engine> engine = engine_of(queue_of(spec));
  if (engine && engine->capacity().slots > 0) return {};
  if (!parts_.environment_ready || parts_.environment_ready(spec.environment)) return {};
  return hash;
}

std::string AllRuns::held_reason(const Environment& environment) const {
  std::string words = parts_.environment_words ? parts_.environment_words(environment) : "";
  if (words.empty()) words = "environment " + environment.hash.substr(0, 6) + " is to be built";
  return words;
}

Status AllRuns::let_go(std::span<const RunId> held) {
  const WallTime now = parts_.clock.wall();
  return change_held(held, 0, [&](db::Transaction& transaction, store::RunHead& head) {
    return let_go_of(transaction, head, now);
  });
}

Status AllRuns::fail_held(std::span<const RunId> held, std::string_view why) {
  const WallTime now = parts_.clock.wall();
  const Unprepared event{std::string(why)};
  return change_held(held, -1, [&](db::Transaction& transaction, store::RunHead& head) {
    return apply(transaction, head, event, {.at = now});
  });
}

// `queued`: by how much a run of them makes its queue longer.
Status AllRuns::change_held(std::span<const RunId> held, int64_t queued, const HeldChange& change) {
  while (!held.empty()) {
    const auto some = held.first(std::min(held.size(), kHeldMax));
    held = held.subspan(some.size());
    std::vector<Applied> done;
    const auto write = [&](db::Transaction& transaction) -> Status {
      done.clear();
      for (const RunId& id : some) {
        TRY_SET(std::optional<store::RunHead> head, store::find_run_head(transaction.db(), id));
        if (!head || head->held.empty()) continue;  // Canceled meanwhile, or gone altogether.
        TRY_SET(Applied applied, change(transaction, *head));
        done.push_back(std::move(applied));
      }
      return {};
    };
    TRY(parts_.store.write(Durable::yes, write));
    ledger_.with([&](Ledger& ledger) {
      for (const Applied& applied : done) {
        Ledger::Account& target = ledger.account(applied.queue);
        --target.held;
        target.queued += queued;
      }
    });
    for (const Applied& applied : done) settle(applied);
  }
  bell_->ring();
  return {};
}

}  // namespace trainyard::control
