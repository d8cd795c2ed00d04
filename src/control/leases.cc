#include "control/all_runs.h"

namespace trainyard::control {
namespace {

constexpr size_t kLossesMax = 64;  // Of one round: bounds how long others wait.

}  // namespace

// The engine says that these will not report again. Whose last report has come is simply over. When
// a whole rack goes there are many: so many a round, and true when there are more.
bool AllRuns::bury_gone() {
  const auto [all, more] = bell_->take_gone(kLossesMax);
  std::vector<Loss> losses;
  for (const Bell::Gone& gone : all) {
    const bool live = ledger_.with([&](const Ledger& l) { return l.holds(gone.attempt); });
    if (!live) {
      explain_eviction(gone.attempt, gone.going.why);
      continue;
    }
    const engine::Engine::Going& going = gone.going;
    losses.push_back(
        {.attempt = gone.attempt,
         .why = going.refused || going.evicted ? going.why : "its supervisor is gone: " + going.why,
         .evicted = going.evicted,
         .refused = going.refused});
  }
  lose_all(std::move(losses));
  return more;
}

// A supervisor that is told to stop reports an eviction without knowing why. The engine knows, a
// moment later. A run that is over is not changed any more.
void AllRuns::explain_eviction(const AttemptId& attempt, const std::string& why) {
  std::optional<store::RunHead> head;
  store::AttemptRow row;
  const auto look = [&](db::Db& db) -> Status {
    head.reset();
    TRY_SET(store::RunHead found, store::run_head(db, attempt.run));
    if (is_final(found.life.status)) return {};
    TRY_SET(row, store::attempt_row(db, found.number, attempt.number));
    const std::optional<AttemptEnd>& end = row.attempt.end;
    if (end && end->cause == EndCause::evicted && end->error != why) head = std::move(found);
    return {};
  };
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY(look(transaction.db()));
    if (!head) return {};
    row.attempt.end->error = why;
    TRY(store::save_attempt(transaction, head->number, row));
    return store::save_run(transaction, *head);
  };
  if (!parts_.store.read(look) || !head) return;
  if (const Status written = parts_.store.write(Durable::no, change); !written) {
    parts_.log.warn("reason of an eviction not kept",
                    {{"attempt", attempt.str()}, {"error", written.error().message}});
    return;
  }
  if (parts_.changed) parts_.changed(attempt.run);
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
  std::vector<Loss> one;
  one.push_back(std::move(loss));
  lose_all(std::move(one));
}

// In one commit: what is lost together costs one wait for the disk.
void AllRuns::lose_all(std::vector<Loss> losses) {
  if (losses.empty()) return;
  for (Loss& loss : losses) loss.at = parts_.clock.wall();
  std::vector<std::optional<Applied>> applied;
  const auto change = [&](db::Transaction& transaction) -> Status {
    applied.clear();
    for (const Loss& loss : losses) {
      TRY_SET(std::optional<Applied> one, apply_loss(transaction, loss));
      applied.push_back(std::move(one));
    }
    return {};
  };
  const Status written = parts_.store.write(Durable::yes, change);
  if (!written && losses.size() > 1) {  // One of them is not to spoil the others.
    for (Loss& loss : losses) lose(std::move(loss));
    return;
  }
  if (!written) {
    // Said again in the next round: a loss must not be lost.
    const Loss& loss = losses.front();
    parts_.log.error("loss not kept",
                     {{"attempt", loss.attempt.str()}, {"error", written.error().message}});
    if (written.error().kind != ErrorKind::not_found) {
      bell_->note_gone(loss.attempt, {loss.why, loss.refused, loss.evicted});
    }
    return;
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!applied[i]) continue;
    parts_.log.warn("attempt lost", {{"attempt", losses[i].attempt.str()}, {"why", losses[i].why}});
    settle(*applied[i]);
  }
}

}  // namespace trainyard::control
