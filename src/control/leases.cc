#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/all_runs.h"
#include "store/run_queries.h"

namespace trainyard::control {
namespace {

constexpr size_t kLossesMax = 64;  // Of one round: bounds how long others wait.
// Between two tries to write a loss down that the disk refuses.
constexpr seconds kLossPauseFirst{1};
constexpr seconds kLossPauseMax{60};

}  // namespace

// The engine says that these will not report again. An attempt that reported its end is over. When
// a whole rack goes there are many: so many a round, and true when there are more.
bool AllRuns::bury_gone() {
  const auto [all, more] = bell_->take_gone(kLossesMax);
  std::vector<Loss> losses;
  for (const Bell::Gone& gone : all) {
    const bool live = ledger_.with([&](const Ledger& l) { return l.holds(gone.attempt); });
    if (!live) {
      if (gone.going.stopped) explain_eviction(gone.attempt, gone.going.why);
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
  lose_again();
  return more;
}

// Losses that could not be written down, once their pause is over.
void AllRuns::lose_again() {
  const SteadyTime now = parts_.clock.steady();
  if (unwritten_.empty() || now < unwritten_due_) return;
  lose_all(std::exchange(unwritten_, {}));
  if (unwritten_.empty()) unwritten_pause_ = seconds(0);
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
    const bool reported = row.phase == to_string(ReportKind::ended);
    if (reported && end && end->cause == EndCause::evicted && end->error != why) {
      head = std::move(found);
    }
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
    if (look_after_cut_off(one, heard)) continue;
    if (!engine || engine->inspect(one.attempt) != engine::Placement::live) {
      lose({.attempt = one.attempt, .why = "its supervisor is gone: it " + heard});
      continue;
    }
    // One that waits in the engine's own queue has nobody yet to speak for it.
    if (!engine->waits_for(one.attempt).empty()) continue;
    parts_.log.warn("supervisor is silent",
                    {{"attempt", one.attempt.str()}, {"seconds", one.silence / seconds(1)}});
    if (one.silence < kSilenceMax || !kill_for_good(one.attempt, one.queue)) continue;
    lose({.attempt = one.attempt, .why = "its supervisor " + heard + " and was killed"});
  }
  end_stuck();
}

// Where nodes may be cut off while their ranks run on, nothing replaces an attempt before the
// engine says that it is gone, or its supervisor has stopped its ranks by itself: at the outage
// limit that it was told, and the grace. true: that is to be waited for.
bool AllRuns::look_after_cut_off(const Ledger::Silent& one, const std::string& heard) {
  seconds limit{0};
  bool reported = false;  // One that never did waits in the engine's queue, or is on its way.
  Run run;
  const Status found = parts_.store.read([&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, one.attempt.run));
    TRY_SET(const auto row, store::attempt_row(db, head.number, one.attempt.number));
    limit = seconds(row.outage_s);
    reported = !row.phase.empty();
    TRY_SET(run, store::load_run(db, one.attempt.run, store::Detail::brief));
    return {};
  });
  if (!found || limit == seconds(0) || !reported) return false;
  const std::shared_ptr<engine::Engine> engine = engine_of(one.queue);
  if (engine && engine->inspect(one.attempt) != engine::Placement::live) return false;
  const auto stopped = limit + seconds(run.spec.grace_s) + engine::kOutageMargin;
  parts_.log.warn("supervisor is silent",
                  {{"attempt", one.attempt.str()}, {"seconds", one.silence / seconds(1)}});
  // Who cancels does not wait for that: the engine is to end it, and says when it has.
  const bool unwanted = run.life.cancel_asked && one.silence >= kSilenceMax;
  const bool over = one.silence >= stopped;
  if (unwanted || over) kill_for_good(one.attempt, one.queue);
  if (over) {
    lose({.attempt = one.attempt,
          .why = "its supervisor " + heard + ", which is beyond the outage limit of " +
                 format_duration(limit) + ": it has stopped by itself",
          .evicted = true});
  }
  return true;
}

// A supervisor that renews its lease with reports that cannot be taken would hold its run, its CPUs
// and its cancellation for ever.
void AllRuns::end_stuck() {
  const SteadyTime now = parts_.clock.steady();
  const auto stuck = ledger_.with([&](Ledger& l) { return l.stuck(now, kStuckMax, kLeaseTerm); });
  for (const Ledger::Stuck& one : stuck) {
    parts_.log.warn("supervisor makes no progress",
                    {{"attempt", one.attempt.str()}, {"why", one.why}});
    if (!kill_for_good(one.attempt, one.queue)) continue;
    lose({.attempt = one.attempt,
          .why = "its supervisor made no progress for " + std::to_string(one.time / seconds(1)) +
                 " s (" + one.why + ") and was killed"});
  }
}

// false: it is not known to be dead, and its CPUs are not given to others. The caller looks again
// after a term.
bool AllRuns::kill_for_good(const AttemptId& attempt, std::string_view queue) {
  const std::shared_ptr<engine::Engine> engine = engine_of(queue);
  if (!engine) return true;  // Its target is gone, and all that was there with it.
  const Status killed = engine->kill(attempt);
  if (!killed) {
    parts_.log.error("kill failed",
                     {{"attempt", attempt.str()}, {"error", killed.error().message}});
  }
  return killed.has_value();
}

void AllRuns::lose(Loss loss) {
  std::vector<Loss> one;
  one.push_back(std::move(loss));
  lose_all(std::move(one));
}

// In one commit: what is lost together costs one wait for the disk.
void AllRuns::lose_all(std::vector<Loss> losses) {
  if (losses.empty()) return;
  for (Loss& loss : losses) {
    loss.at = parts_.clock.wall();
    if (parts_.seal) parts_.seal(loss.attempt.run);
  }
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
    // Tried again after a pause: a loss must not be lost, and a full disk not be tried all the
    // time.
    Loss& loss = losses.front();
    parts_.log.error("loss not kept",
                     {{"attempt", loss.attempt.str()}, {"error", written.error().message}});
    if (written.error().kind == ErrorKind::not_found) return;
    if (unwritten_.empty()) {
      unwritten_pause_ = std::clamp(unwritten_pause_ * 2, kLossPauseFirst, kLossPauseMax);
      unwritten_due_ = parts_.clock.steady() + unwritten_pause_;
    }
    const bool known = std::ranges::any_of(
        unwritten_, [&](const Loss& other) { return other.attempt == loss.attempt; });
    if (!known) unwritten_.push_back(std::move(loss));
    return;
  }
  for (size_t i = 0; i < losses.size(); ++i) {
    if (!applied[i]) continue;
    parts_.log.warn("attempt lost", {{"attempt", losses[i].attempt.str()}, {"why", losses[i].why}});
    settle(*applied[i]);
  }
}

}  // namespace trainyard::control
