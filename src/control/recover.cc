#include "control/all_runs.h"
#include "store/run_queries.h"

namespace trainyard::control {

Status AllRuns::recover() {
  std::lock_guard lock(tick_mutex_);
  finish_withdrawals();
  TRY_SET(const std::vector<Open> open, find_open());
  std::vector<store::UnreleasedAttempt> ended;
  std::map<std::string, store::QueueLength> queued;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(ended, store::unreleased_attempts(db));
    TRY_SET(queued, store::count_queued(db));
    return {};
  };
  TRY(parts_.store.read(look));
  const SteadyTime now = parts_.clock.steady();
  leaving_.with([&](auto& leaving) {
    leaving.clear();
    for (const auto& left : ended) leaving.push_back({left.attempt, left.queue, now});
  });
  // All of it first: what is held must be known before anything is placed.
  ledger_.with([&](Ledger& ledger) {
    ledger.clear();
    for (const auto& [queue, length] : queued) {
      ledger.account(queue).queued = length.queued;
      ledger.account(queue).held = length.held;
    }
    for (const Open& one : open) {
      const AttemptId attempt{one.head.id, one.head.life.attempt};
      ledger.take(attempt, one.head.queue, one.head.resources, now, one.gpus, one.head.nodes);
      if (!one.phase.empty()) ledger.heard(attempt, now);  // By the server before us.
      if (one.grace) ledger.canceled(attempt, now + *one.grace);
    }
  });
  for (const Open& one : open) take_up(one);
  next_tick_ = {};
  bell_->ring();
  return {};
}

// Those that wait are only counted: they are many.
Result<std::vector<AllRuns::Open>> AllRuns::find_open() {
  std::vector<Open> open;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const std::vector<RunId> ids, store::live_runs(db));
    for (const RunId& id : ids) {
      Open one;
      TRY_SET(one.head, store::run_head(db, id));
      TRY_SET(const store::AttemptRow row,
              store::attempt_row(db, one.head.number, one.head.life.attempt));
      one.phase = row.phase;
      one.gpus = row.attempt.gpus;
      one.outage_s = row.outage_s;
      if (one.head.life.cancel_asked && one.phase != to_string(ReportKind::finalizing)) {
        TRY_SET(const Run run, store::load_run(db, id, store::Detail::brief));
        one.grace = seconds(run.spec.grace_s);
      }
      open.push_back(std::move(one));
    }
    return {};
  };
  TRY(parts_.store.read(look));
  return open;
}

// The engine takes the watch up again. One it does not know was claimed when the server went down
// before it was placed: it is placed now. If it has reported, it was placed and has vanished.
void AllRuns::take_up(const Open& open) {
  const AttemptId attempt{open.head.id, open.head.life.attempt};
  const std::shared_ptr<engine::Engine> engine = engine_of(open.head.queue);
  if (!engine) return;  // Taken up when its target is there again, or lost by its silence.
  const Status recovered = engine->recover(attempt);
  const engine::Placement placement = engine->inspect(attempt);
  parts_.log.info("attempt taken up",
                  {{"attempt", attempt.str()}, {"live", placement == engine::Placement::live}});
  switch (placement) {
    case engine::Placement::live:
      if (open.head.life.cancel_asked && open.phase.empty()) take_back(attempt, open.head.queue);
      return;
    case engine::Placement::unknown:
      if (open.phase.empty() && !open.head.life.cancel_asked) return place_again(open);
      break;
    case engine::Placement::gone:
      break;
  }
  lose({.attempt = attempt,
        .why = "its supervisor was gone when the server came back" +
               (recovered ? std::string() : ": " + recovered.error().message)});
}

void AllRuns::place_again(const Open& open) {
  Claim claim{.run = {},
              .attempt = {open.head.id, open.head.life.attempt},
              .secret = new_attempt_secret(open.head.queue),
              .gpus = open.gpus,
              .outage_s = open.outage_s};
  // Of the first secret only the hash is left; it was never handed out.
  const Status renewed =
      parts_.store.write(Durable::yes, [&](db::Transaction& transaction) -> Status {
        TRY_SET(claim.run, store::load_run(transaction.db(), open.head.id, store::Detail::brief));
        return store::set_attempt_token(transaction, open.head, claim.attempt.number, claim.secret,
                                        parts_.clock.wall());
      });
  if (!renewed) {
    return lose({.attempt = claim.attempt,
                 .why = "it could not be placed again: " + renewed.error().message,
                 .placed = false});
  }
  place(claim);
}

}  // namespace trainyard::control
