#include "control/all_runs.h"

namespace trainyard::control {

// The engine says that these will not report again. Whose last report has come is simply over.
void AllRuns::bury_gone() {
  for (const Bell::Gone& gone : bell_->take_gone()) {
    const bool live = ledger_.with([&](const Ledger& l) { return l.holds(gone.attempt); });
    if (live) lose(gone.attempt, gone.why);
  }
}

// Silence alone proves nothing: the engine is asked. One that lives but says nothing is given more
// time, up to a limit, and is then killed, so that it cannot speak up when its run goes on
// elsewhere.
void AllRuns::look_after_leases() {
  const SteadyTime now = parts_.clock.steady();
  const auto silent = ledger_.with([&](Ledger& l) { return l.silent(now, kLeaseTerm); });
  for (const Ledger::Silent& one : silent) {
    const std::string heard =
        "was not heard of for " + std::to_string(one.silence / seconds(1)) + " s";
    if (parts_.engine.inspect(one.attempt) != engine::Placement::live) {
      lose(one.attempt, "its supervisor is gone: it " + heard);
      continue;
    }
    parts_.log.warn("supervisor is silent",
                    {{"attempt", one.attempt.str()}, {"seconds", one.silence / seconds(1)}});
    if (one.silence < kSilenceMax) continue;
    if (const Status killed = parts_.engine.kill(one.attempt); !killed) {
      // Not known to be dead: its CPUs are not given to others. Looked at again after a term.
      parts_.log.error("kill failed",
                       {{"attempt", one.attempt.str()}, {"error", killed.error().message}});
      continue;
    }
    lose(one.attempt, "its supervisor " + heard + " and was killed");
  }
}

void AllRuns::lose(const AttemptId& attempt, const std::string& why, bool placed) {
  std::optional<Applied> applied;
  const Status written =
      parts_.store.write(Durable::yes, [&](db::Transaction& transaction) -> Status {
        TRY_SET(applied,
                apply_loss(
                    transaction,
                    {.attempt = attempt, .why = why, .at = parts_.clock.wall(), .placed = placed}));
        return {};
      });
  if (!written) {
    // Said again in the next round: a loss must not be lost.
    parts_.log.error("loss not kept",
                     {{"attempt", attempt.str()}, {"error", written.error().message}});
    if (written.error().kind != ErrorKind::not_found) bell_->note_gone(attempt, why);
    return;
  }
  if (!applied) return;
  parts_.log.warn("attempt lost", {{"attempt", attempt.str()}, {"why", why}});
  settle(*applied);
}

}  // namespace trainyard::control
