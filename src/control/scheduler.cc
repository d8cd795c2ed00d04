#include <algorithm>
#include <set>

#include "control/all_runs.h"
#include "store/run_queries.h"

namespace trainyard::control {
namespace {

constexpr int kClaimsMax = 64;            // In one transaction: bounds how long others wait.
constexpr seconds kIdle{30};              // A round at least this often.
constexpr seconds kPauseAfterFailure{1};  // Of engine or disk, before the queue is tried again.
constexpr seconds kLate{5};               // A round later than this was not ours to be.

void add(Resources& all, const Resources& more) {
  all.cpus += more.cpus;
  all.memory_bytes += more.memory_bytes;
  all.gpus += more.gpus;
}

}  // namespace

SteadyTime AllRuns::tick() {
  std::lock_guard lock(tick_mutex_);
  const SteadyTime now = parts_.clock.steady();
  if (next_tick_ != SteadyTime{} && now - next_tick_ > kLate) {
    ledger_.with([&](Ledger& ledger) { ledger.forgive(now - next_tick_); });
  }
  bury_gone();
  place_waiting();
  look_after_leases();
  if (clears_apart_) {
    clearing_bell_.ring();
  } else {
    release_ended();
  }

  next_tick_ = now + kIdle;
  const auto sooner = [&](SteadyTime when) { next_tick_ = std::min(next_tick_, when); };
  if (const auto look = ledger_.with([](Ledger& l) { return l.next_look(kLeaseTerm); })) {
    sooner(*look);
  }
  if (place_after_ > now) sooner(place_after_);
  const bool leaving = leaving_.with([](const auto& all) { return !all.empty(); });
  if (leaving && !clears_apart_) sooner(now + kReleaseAgain);
  return next_tick_;
}

// By priority, then first come, first served: the first of the queue that does not fit holds the
// others back, so that a large run is not passed by for ever. One that waits for GPUs only lets by
// those that want none: they take nothing from it.
void AllRuns::place_waiting() {
  while (parts_.clock.steady() >= place_after_) {
    if (ledger_.with([](const Ledger& ledger) { return ledger.cpus_free() <= 0; })) return;
    Result<std::vector<Claim>> claims = choose();
    if (claims && claims->empty()) return;
    const Status committed = claims ? commit_claims(*claims) : std::unexpected(claims.error());
    if (!committed) {
      parts_.log.error("claim failed", {{"error", committed.error().message}});
      place_after_ = parts_.clock.steady() + kPauseAfterFailure;
      return;
    }
    for (const Claim& claim : *claims) {
      if (claim.made) place(claim);
    }
  }
}

Result<std::vector<AllRuns::Claim>> AllRuns::choose() {
  std::vector<Claim> claims;
  const auto look = [&](db::Db& db) -> Status {
    // Every run takes a CPU at least: more than are free cannot fit.
    const int window = ledger_.with([](const Ledger& l) { return l.cpus_free(); });
    TRY_SET(const auto front, store::queue_front(db, std::min(window, kClaimsMax)));
    if (front.empty()) return {};
    if (const Status space = parts_.store.check_space(); !space) {
      place_after_ = parts_.clock.steady() + kPauseAfterFailure;
      return {};
    }
    TRY_SET(const bool gpus_lack, add_claims(db, front, claims));
    if (!gpus_lack) return {};
    TRY_SET(const auto plain,
            store::queue_front(db, std::min(window, kClaimsMax), store::Wanting::no_gpu));
    TRY(add_claims(db, plain, claims));
    return {};
  };
  TRY(parts_.store.read(look));
  const SteadyTime now = parts_.clock.steady();
  ledger_.with([&](Ledger& ledger) {
    for (Claim& c : claims) c.gpus = ledger.take(c.attempt, c.run.spec.resources, now);
  });
  return claims;
}

// Those of `front` that fit beside what is claimed already, up to the first that does not. True
// when that one lacks GPUs.
Result<bool> AllRuns::add_claims(db::Db& db, const std::vector<store::QueuedRun>& front,
                                 std::vector<Claim>& claims) {
  Resources all{.cpus = 0};
  std::set<std::string> claimed;
  for (const Claim& claim : claims) {
    add(all, claim.run.spec.resources);
    claimed.insert(claim.run.id.value);
  }
  for (const store::QueuedRun& queued : front) {
    if (claimed.contains(queued.id.value)) continue;
    add(all, queued.resources);
    if (!ledger_.with([&](const Ledger& l) { return l.fits(all); })) {
      return !ledger_.with([&](const Ledger& l) { return l.fits({.cpus = 0, .gpus = all.gpus}); });
    }
    TRY_SET(Run run, store::load_run(db, queued.id, store::Detail::brief));
    const AttemptId attempt{run.id, run.life.attempt + 1};
    claims.push_back({std::move(run), attempt, new_secret("tya_"), {}});
  }
  return false;
}

// On the disk before the engine is asked: an attempt's number is never handed out twice, whatever
// its first bearer left on the node when the power failed.
Status AllRuns::commit_claims(std::vector<Claim>& claims) {
  const Status written =
      parts_.store.write(Durable::yes, [&](db::Transaction& transaction) -> Status {
        const WallTime now = parts_.clock.wall();
        for (Claim& claim : claims) {
          claim.made = false;
          TRY_SET(store::RunHead head, store::run_head(transaction.db(), claim.run.id));
          // Canceled since it was chosen.
          if (head.version != claim.run.version) continue;
          TRY(apply(transaction, head, Claimed{}, {.at = now}));
          TRY(store::insert_attempt(
              transaction, head.number,
              {.attempt = {.number = claim.attempt.number, .placed = now, .gpus = claim.gpus}}));
          TRY(store::set_attempt_token(transaction, head, claim.attempt.number, claim.secret, now));
          claim.made = true;
        }
        return {};
      });
  ledger_.with([&](Ledger& ledger) {
    for (const Claim& claim : claims) {
      if (written && claim.made) {
        --ledger.queued;
      } else {
        ledger.give_back(claim.attempt);
      }
    }
  });
  return written;
}

void AllRuns::place(const Claim& claim) {
  if (parts_.changed) parts_.changed(claim.run.id);
  const Status placed = parts_.engine.place(assignment(claim));
  if (placed) return;
  parts_.log.error("placing failed",
                   {{"attempt", claim.attempt.str()}, {"error", placed.error().message}});
  place_after_ = parts_.clock.steady() + kPauseAfterFailure;
  lose(claim.attempt, "its supervisor could not be started: " + placed.error().message, false);
}

Assignment AllRuns::assignment(const Claim& claim) const {
  return {.run = claim.run.id.value,
          .attempt = claim.attempt.number,
          .token = claim.secret,
          .server_socket = parts_.addresses.socket,
          .server_url = parts_.addresses.url,
          .blobs = parts_.addresses.blobs,
          .user = claim.run.user,
          .workspace_id = claim.run.workspace_id,
          .experiment_id = claim.run.experiment_id,
          .subscription_id = claim.run.subscription_id,
          .resource_group = claim.run.resource_group,
          .gpus = claim.gpus,
          .gives_gpus = !parts_.engine.capacity().gpus.empty(),
          .outputs = claim.run.outputs,
          .spec = claim.run.spec};
}

}  // namespace trainyard::control
