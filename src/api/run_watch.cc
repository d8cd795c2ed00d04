#include "api/run_watch.h"

#include <fmt/format.h>

namespace trainyard::api {
namespace {

constexpr size_t kGlancesMax = 4096;  // Some 300 bytes each.

bool waits(RunStatus status) {
  return status == RunStatus::not_started || status == RunStatus::queued;
}

}  // namespace

Glance glance_of(const Run& run) {
  return {.version = run.version,
          .status = run.life.status,
          .reason = run.reason,
          .error = run.life.error,
          .exit_code = run.life.exit_code,
          .attempt = run.life.attempt,
          .ranks = rank_count(run.spec),
          .warned = !run.warnings.empty() || (!run.attempts.empty() && run.attempts.back().end &&
                                              !run.attempts.back().end->warnings.empty())};
}

Status check_live(const Glance& glance, const AttemptId& attempt) {
  if (glance.attempt == attempt.number && !glance.final() && !waits(glance.status)) return {};
  if (glance.attempt > attempt.number) {
    return fail(ErrorKind::conflict, fmt::format("attempt {} is over: attempt {} has begun",
                                                 attempt.str(), glance.attempt));
  }
  return fail(ErrorKind::conflict, fmt::format("attempt {} is over: its run is {}", attempt.str(),
                                               to_string(glance.status)));
}

Result<std::shared_ptr<const Glance>> RunWatch::glance(const RunId& id) {
  using Shared = std::shared_ptr<const Glance>;
  uint64_t changes_before = 0;
  Shared found = kept_.with([&](Kept& kept) -> Shared {
    changes_before = kept.changes;
    const auto at = kept.glances.find(id);
    return at == kept.glances.end() ? nullptr : at->second;
  });
  if (found) return found;
  TRY_SET(const Run run, look_(id));
  found = std::make_shared<const Glance>(glance_of(run));
  // Of one whose environment is being made too, the reason changes without it.
  if (waits(found->status) || found->status == RunStatus::preparing) return found;
  kept_.with([&](Kept& kept) {
    if (kept.changes != changes_before) return;
    if (kept.glances.size() >= kGlancesMax) kept.glances.clear();
    kept.glances[id] = found;
  });
  return found;
}

bool RunWatch::knows(const RunId& id) {
  return kept_.with([&](Kept& kept) { return kept.glances.contains(id); });
}

void RunWatch::changed(const RunId& id) {
  kept_.with([&](Kept& kept) {
    ++kept.changes;
    kept.glances.erase(id);
  });
}

void RunWatch::all_changed() {
  kept_.with([&](Kept& kept) {
    ++kept.changes;
    kept.glances.clear();
  });
}

}  // namespace trainyard::api
