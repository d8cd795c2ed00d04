#include <algorithm>
#include <set>

#include "control/all_runs.h"
#include "model/handover.h"
#include "store/members.h"
#include "store/run_queries.h"

namespace trainyard::control {
namespace {

constexpr size_t kClaimsMax = 64;         // In one transaction: bounds how long others wait.
constexpr seconds kIdle{30};              // A round at least this often.
constexpr seconds kPauseAfterFailure{1};  // Of engine or disk, before the queue is tried again.
constexpr seconds kLate{5};               // A round later than this was not ours to be.

// What several runs want together. Of a cluster's runs only how many they are matters.
struct Sum {
  Resources all{.cpus = 0};
  int nodes = 0;
  void add(const Resources& more, int more_nodes, bool slots) {
    all.cpus += more.cpus;
    all.memory_bytes += more.memory_bytes;
    all.gpus += more.gpus * (slots ? more_nodes : 1);
    nodes += more_nodes;
  }
};

}  // namespace

SteadyTime AllRuns::tick() {
  std::lock_guard lock(tick_mutex_);
  const SteadyTime now = parts_.clock.steady();
  if (next_tick_ != SteadyTime{} && now - next_tick_ > kLate) {
    ledger_.with([&](Ledger& ledger) { ledger.forgive(now - next_tick_); });
  }
  bool more = bury_gone();
  // Who lost its node is back in line before that place is given to others.
  if (!more) {
    for (const std::string& queue : open_queues()) more = place_waiting(queue) || more;
  }
  look_after_leases();
  if (clears_apart_) {
    clearing_bell_.ring();
  } else {
    release_ended();
  }

  next_tick_ = more ? now : now + kIdle;
  const auto sooner = [&](SteadyTime when) { next_tick_ = std::min(next_tick_, when); };
  if (const auto look = ledger_.with([](Ledger& l) { return l.next_look(kLeaseTerm); })) {
    sooner(*look);
  }
  for (const auto& [queue, after] : place_after_) {
    if (after > now) sooner(after);
  }
  if (!unwritten_.empty()) sooner(unwritten_due_);
  const bool leaving = leaving_.with([](const auto& all) { return !all.empty(); });
  if (leaving && !clears_apart_) sooner(now + kReleaseAgain);
  return next_tick_;
}

// By priority, then first come, first served: the first of the queue that does not fit holds the
// others back, so that a large run is not passed by for ever. One that waits for GPUs only lets by
// those that want none: they take nothing from it.
//
// A round takes so many of a queue and no more, however many fit: others wait for their turn too,
// and for the word that a node is gone. True when there may be more.
bool AllRuns::place_waiting(const std::string& queue) {
  SteadyTime& after = place_after_[queue];
  if (parts_.clock.steady() < after) return false;
  if (ledger_.with([&](Ledger& ledger) { return ledger.account(queue).room() <= 0; })) return false;
  Result<std::vector<Claim>> claims = choose(queue);
  if (claims && claims->empty()) return false;
  const Status committed = claims ? commit_claims(*claims) : std::unexpected(claims.error());
  if (!committed) {
    parts_.log.error("claim failed", {{"error", committed.error().message}});
    after = parts_.clock.steady() + kPauseAfterFailure;
    return false;
  }
  bool more = claims->size() >= kClaimsMax;
  for (const Claim& claim : *claims) {
    if (claim.made) place(claim);
    more = more || !claim.made;  // It was canceled: its place is free.
  }
  return more && parts_.clock.steady() >= after;
}

Result<std::vector<AllRuns::Claim>> AllRuns::choose(const std::string& queue) {
  std::vector<Claim> claims;
  const auto look = [&](db::Db& db) -> Status {
    const int room = ledger_.with([&](Ledger& l) { return l.account(queue).room(); });
    const int limit = std::min(room, static_cast<int>(kClaimsMax));
    TRY_SET(const auto front, store::queue_front(db, queue, limit));
    if (front.empty()) return {};
    if (const Status space = parts_.store.check_space(); !space) {
      place_after_[queue] = parts_.clock.steady() + kPauseAfterFailure;
      return {};
    }
    TRY_SET(const bool gpus_lack, add_claims(db, queue, front, claims));
    if (!gpus_lack) return {};
    TRY_SET(const auto plain, store::queue_front(db, queue, limit, store::Wanting::no_gpu));
    TRY(add_claims(db, queue, plain, claims));
    return {};
  };
  TRY(parts_.store.read(look));
  const SteadyTime now = parts_.clock.steady();
  ledger_.with([&](Ledger& ledger) {
    for (Claim& c : claims)
      c.gpus = ledger.take(c.attempt, queue, c.run.spec.resources, now, {}, c.run.spec.nodes);
  });
  return claims;
}

// Those of `front` that fit beside what is claimed already, up to the first that does not. True
// when that one lacks GPUs.
Result<bool> AllRuns::add_claims(db::Db& db, const std::string& queue,
                                 const std::vector<store::QueuedRun>& front,
                                 std::vector<Claim>& claims) {
  const std::shared_ptr<engine::Engine> engine = engine_of(queue);
  const engine::Outage outage = engine ? engine->outage() : engine::Outage{};
  const bool slots = engine && engine->capacity().slots > 0;
  Sum sum;
  std::set<std::string> claimed;
  for (const Claim& claim : claims) {
    sum.add(claim.run.spec.resources, claim.run.spec.nodes, slots);
    claimed.insert(claim.run.id.value);
  }
  for (const store::QueuedRun& queued : front) {
    if (claimed.contains(queued.id.value)) continue;
    sum.add(queued.resources, queued.nodes, slots);
    const int count = static_cast<int>(claims.size()) + 1;
    const auto fits = [&](const Resources& wants, int nodes) {
      return ledger_.with([&](Ledger& l) { return l.account(queue).fits(wants, count, nodes); });
    };
    if (!fits(sum.all, sum.nodes)) return !fits({.cpus = 0, .gpus = sum.all.gpus}, 0);
    TRY_SET(Run run, store::load_run(db, queued.id, store::Detail::brief));
    const AttemptId attempt{run.id, run.life.attempt + 1};
    claims.push_back({.run = std::move(run),
                      .attempt = attempt,
                      .secret = new_attempt_secret(queue),
                      .gpus = {},
                      .outage_s = outage.limit.count()});
  }
  return false;
}

std::string AllRuns::new_attempt_secret(std::string_view queue) {
  const std::shared_ptr<engine::Engine> engine = engine_of(queue);
  const bool ticket = engine && engine->capacity().tickets;
  return new_secret(ticket ? kTicketPrefix : kAttemptTokenPrefix);
}

// On the disk before the engine is asked: an attempt's number is never handed out twice, whatever
// its first bearer left on the node when the power failed.
//
// A run whose user has lost the right to it is canceled instead: one that was submitted while the
// right was withdrawn, or one that an interrupted withdrawal has left.
Status AllRuns::commit_claims(std::vector<Claim>& claims) {
  std::vector<Canceled> withdrawn;
  const Status written =
      parts_.store.write(Durable::yes, [&](db::Transaction& transaction) -> Status {
        const WallTime now = parts_.clock.wall();
        withdrawn.clear();
        for (Claim& claim : claims) {
          claim.made = false;
          TRY_SET(store::RunHead head, store::run_head(transaction.db(), claim.run.id));
          // Canceled since it was chosen.
          if (head.version != claim.run.version) continue;
          TRY_SET(const bool lacks_right, store::lacks_right(transaction.db(), head.number));
          if (lacks_right) {
            TRY_SET(Canceled one,
                    withdraw_run(transaction, head, unfinished_withdrawal(head.user)));
            withdrawn.push_back(std::move(one));
            continue;
          }
          TRY(apply(transaction, head, Claimed{}, {.at = now}));
          TRY(store::insert_attempt(
              transaction, head.number,
              {.attempt = {.number = claim.attempt.number, .placed = now, .gpus = claim.gpus},
               .outage_s = claim.outage_s}));
          TRY(store::set_attempt_token(transaction, head, claim.attempt.number, claim.secret, now));
          claim.made = true;
        }
        return {};
      });
  ledger_.with([&](Ledger& ledger) {
    for (const Claim& claim : claims) {
      if (written && claim.made) {
        --ledger.account(queue_of(claim.run.spec)).queued;
      } else {
        ledger.give_back(claim.attempt);
      }
    }
  });
  if (written) {
    for (const Canceled& one : withdrawn) settle(one);
  }
  return written;
}

void AllRuns::place(const Claim& claim) {
  if (parts_.changed) parts_.changed(claim.run.id);
  const std::string queue = queue_of(claim.run.spec);
  const std::shared_ptr<engine::Engine> engine = engine_of(queue);
  const Status placed = engine ? engine->place(assignment(claim, engine.get()))
                               : fail(ErrorKind::unavailable, "the target is gone");
  if (placed) return;
  parts_.log.error("placing failed",
                   {{"attempt", claim.attempt.str()}, {"error", placed.error().message}});
  place_after_[queue] = parts_.clock.steady() + kPauseAfterFailure;
  lose({.attempt = claim.attempt,
        .why = "its supervisor could not be started: " + placed.error().message,
        .placed = false});
}

// `engine`: null where it is not there any more.
Assignment AllRuns::assignment(const Claim& claim, const engine::Engine* engine) const {
  return {.run = claim.run.id.value,
          .attempt = claim.attempt.number,
          .token = claim.secret,
          .server_socket = parts_.addresses.socket,
          .server_url = parts_.addresses.url,
          .blobs = parts_.addresses.blobs,
          .environments = parts_.addresses.environments,
          .user = claim.run.user,
          .workspace_id = claim.run.workspace_id,
          .experiment_id = claim.run.experiment_id,
          .subscription_id = claim.run.subscription_id,
          .resource_group = claim.run.resource_group,
          .gpus = claim.gpus,
          .gives_gpus = engine != nullptr && !engine->capacity().gpus.empty(),
          .outputs = claim.run.outputs,
          .outage_s = claim.outage_s,
          .unsent_s = engine != nullptr ? engine->outage().unsent.count() : 0,
          .spec = claim.run.spec};
}

}  // namespace trainyard::control
