#include "control/all_runs.h"

namespace trainyard::control {

// The engine says that these will not report again. Whose last report has come is simply over.
void AllRuns::bury_gone() {
  for (const Bell::Gone& gone : bell_->take_gone()) {
    const bool live = ledger_.with([&](const Ledger& l) { return l.holds(gone.attempt); });
    if (!live) continue;
    const engine::Engine::Going& going = gone.going;
    lose(
        {.attempt = gone.attempt,
         .why = going.refused || going.evicted ? going.why : "its supervisor is gone: " + going.why,
         .evicted = going.evicted,
         .refused = going.refused});
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
    const std::shared_ptr<engine::Engine> engine = engine_of(one.queue);
    if (!engine || engine->inspect(one.attempt) != engine::Placement::live) {
      lose({.attempt = one.attempt, .why = "its supervisor is gone: it " + heard});
      continue;
    }
    // One that waits in the engine's own queue has nobody yet to speak for it.
    if (!engine->waits_for(one.attempt).empty()) continue;
    parts_.log.warn("supervisor is silent",
                    {{"attempt", one.attempt.str()}, {"seconds", one.silence / seconds(1)}});
    if (one.silence < kSilenceMax) continue;
    if (const Status killed = engine->kill(one.attempt); !killed) {
      // Not known to be dead: its CPUs are not given to others. Looked at again after a term.
      parts_.log.error("kill failed",
                       {{"attempt", one.attempt.str()}, {"error", killed.error().message}});
      continue;
    }
    lose({.attempt = one.attempt, .why = "its supervisor " + heard + " and was killed"});
  }
}

void AllRuns::lose(Loss loss) {
  loss.at = parts_.clock.wall();
  std::optional<Applied> applied;
  const Status written =
      parts_.store.write(Durable::yes, [&](db::Transaction& transaction) -> Status {
        TRY_SET(applied, apply_loss(transaction, loss));
        return {};
      });
  if (!written) {
    // Said again in the next round: a loss must not be lost.
    parts_.log.error("loss not kept",
                     {{"attempt", loss.attempt.str()}, {"error", written.error().message}});
    if (written.error().kind != ErrorKind::not_found) {
      bell_->note_gone(loss.attempt, {loss.why, loss.refused, loss.evicted});
    }
    return;
  }
  if (!applied) return;
  parts_.log.warn("attempt lost", {{"attempt", loss.attempt.str()}, {"why", loss.why}});
  settle(*applied);
}

}  // namespace trainyard::control
