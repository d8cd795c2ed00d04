// Runs that are to stop: by a request, or because their user lost the right to them.
#include <algorithm>

#include "control/all_runs.h"
#include "store/attempt_nodes.h"
#include "store/members.h"

namespace trainyard::control {
namespace {

constexpr int kWithdrawnMax = 500;  // In one transaction: bounds how long others wait.

}  // namespace

Result<Run> AllRuns::cancel(const RunId& id, std::string_view by) {
  std::optional<Canceled> canceled;
  const auto change = [&](db::Transaction& transaction) -> Status {
    canceled.reset();
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), id));
    if (is_final(head.life.status)) {
      return fail(ErrorKind::conflict,
                  "run " + id.value + " is over: " + std::string(to_string(head.life.status)));
    }
    if (head.life.cancel_asked) return {};  // Asked before: nothing new.
    TRY_SET(canceled, cancel_in(transaction, head, CancelAsked{.by = std::string(by)},
                                "asked by " + std::string(by)));
    return {};
  };
  TRY(parts_.store.write(Durable::yes, change));
  if (canceled) settle(*canceled);
  Result<Run> found = run(id);
  if (canceled && found && !is_final(found->life.status)) {
    const SteadyTime since = parts_.clock.steady() + seconds(found->spec.grace_s);
    ledger_.with([&](Ledger& ledger) { ledger.canceled(canceled->applied.attempt, since); });
  }
  return found;
}

Status AllRuns::withdraw(const Withdrawal& withdrawal) {
  Withdrawal next = withdrawal;
  while (true) {
    std::vector<Canceled> canceled;
    const auto change = [&](db::Transaction& transaction) {
      canceled.clear();
      return withdraw_in(transaction, next, canceled);
    };
    TRY(parts_.store.write(Durable::yes, change));
    for (const Canceled& one : canceled) {
      settle(one);
      // Its supervisor kills at once; one that does not is killed as one that was canceled.
      const SteadyTime now = parts_.clock.steady();
      ledger_.with([&](Ledger& ledger) { ledger.canceled(one.applied.attempt, now); });
    }
    if (canceled.empty()) return {};
    next.change = {};  // Done; there may be more runs.
  }
}

// Those that are live come first: with `change` they are in its commit.
Status AllRuns::withdraw_in(db::Transaction& transaction, const Withdrawal& withdrawal,
                            std::vector<Canceled>& canceled) {
  if (withdrawal.change) TRY(withdrawal.change(transaction));
  TRY_SET(const std::vector<RunId> runs,
          store::runs_without_right(transaction.db(), withdrawal.user, kWithdrawnMax));
  for (const RunId& id : runs) {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), id));
    if (is_final(head.life.status)) continue;  // With its parent, a moment ago.
    TRY_SET(Canceled one, withdraw_run(transaction, head, withdrawal));
    canceled.push_back(std::move(one));
  }
  return {};
}

Result<AllRuns::Canceled> AllRuns::withdraw_run(db::Transaction& transaction, store::RunHead& head,
                                                const Withdrawal& withdrawal) {
  const CancelAsked event{.by = withdrawal.by, .why = withdrawal.why};
  TRY_SET(Canceled canceled, cancel_in(transaction, head, event, withdrawal.why));
  TRY(store::revoke_attempt_tokens(transaction, head.number, parts_.clock.wall()));
  return canceled;
}

// The change itself is committed; who made it is not known any more.
Control::Withdrawal AllRuns::unfinished_withdrawal(const std::string& user) {
  return {.user = user,
          .by = "trainyard",
          .why = "user '" + user + "' has lost the right to submit it",
          .change = {}};
}

// The server before this one was killed between two batches. A failure only delays this: queued
// runs are checked once more when they are claimed.
void AllRuns::finish_withdrawals() {
  std::vector<std::string> users;
  Status done = parts_.store.read([&](db::Db& db) -> Status {
    TRY_SET(users, store::users_without_right(db));
    return {};
  });
  for (const std::string& user : users) {
    if (done) done = withdraw(unfinished_withdrawal(user));
  }
  if (!done) parts_.log.error("runs not withdrawn", {{"error", done.error().message}});
}

Result<AllRuns::Canceled> AllRuns::cancel_in(db::Transaction& transaction, store::RunHead& head,
                                             const CancelAsked& event, std::string text) {
  Canceled canceled;
  if (head.life.status == RunStatus::queued) canceled.queue = head.queue;
  canceled.held = head.held.empty() ? 0 : 1;
  canceled.unheard = head.life.status == RunStatus::provisioning;
  if (head.life.status == RunStatus::preparing && head.nodes > 1) {
    TRY_SET(const auto nodes,
            store::attempt_nodes(transaction.db(), head.number, head.life.attempt, head.nodes));
    // No rank has started while one of the nodes is not there.
    canceled.unheard = std::ranges::any_of(nodes, [](const auto& n) { return !n.phase && !n.end; });
  }
  TRY_SET(canceled.applied,
          apply(transaction, head, event, {.at = parts_.clock.wall(), .text = std::move(text)}));
  return canceled;
}

void AllRuns::settle(const Canceled& canceled) {
  if (!canceled.queue.empty()) {
    ledger_.with([&](Ledger& ledger) {
      --ledger.account(canceled.queue).queued;
      ledger.account(canceled.queue).held -= canceled.held;
    });
  }
  settle(canceled.applied);
  if (canceled.unheard) take_back(canceled.applied.attempt, canceled.applied.queue);
}

// One that waits in an engine's own queue, perhaps for days, is taken out of it; the engine says
// when it is gone. Elsewhere its supervisor is about to be there, and hears of it by its orders.
void AllRuns::take_back(const AttemptId& attempt, std::string_view queue) {
  const std::shared_ptr<engine::Engine> engine = engine_of(queue);
  if (!engine || engine->capacity().window == 0) return;
  if (const Status killed = engine->kill(attempt); !killed) {
    parts_.log.error("kill failed",
                     {{"attempt", attempt.str()}, {"error", killed.error().message}});
  }
}

}  // namespace trainyard::control
