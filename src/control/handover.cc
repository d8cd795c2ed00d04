// How a job that starts on a cluster gets its attempt's token: model/handover.h.
#include "model/handover.h"

#include "base/hash.h"
#include "control/all_runs.h"

namespace trainyard::control {
namespace {

enum class Shown { first, again };

// Who shows it again with the same nonce is the one who did first: the answer was lost.
Result<Shown> check_ticket(db::Db& db, const store::RunHead& head, int attempt,
                           const Handover& handover) {
  TRY_SET(const std::string current, store::attempt_token_hash(db, head.number, attempt));
  if (current == sha256(handover.token).hex()) return Shown::again;
  if (current == sha256(handover.ticket).hex()) return Shown::first;
  return fail(ErrorKind::conflict, "the one-time token of this job was used before",
              "Another process of the same account may have read its job script.");
}

}  // namespace

Status AllRuns::hand_over(const AttemptId& attempt, std::string_view bearer) {
  const std::optional<Handover> handover = parse_handover(bearer);
  if (!handover) return fail(ErrorKind::invalid, "the bearer is not TICKET.NONCE");
  std::string queue;
  Shown shown = Shown::first;
  const auto look = [&](db::Db& db) -> Result<store::RunHead> {
    TRY_SET(store::RunHead head, store::run_head(db, attempt.run));
    TRY(check_live(head, attempt));
    TRY_SET(shown, check_ticket(db, head, attempt.number, *handover));
    queue = head.queue;
    return head;
  };
  const Status looked = parts_.store.read([&](db::Db& db) -> Status {
    TRY(look(db));
    return {};
  });
  if (!looked) {
    parts_.log.warn("hand-over refused",
                    {{"attempt", attempt.str()}, {"why", looked.error().message}});
    return looked;
  }
  if (shown == Shown::again) return {};
  // A ticket that is shown while the job still waits was read out of its script.
  const std::shared_ptr<engine::Engine> engine = engine_of(queue);
  if (engine && !engine->may_have_started(attempt)) {
    return fail(ErrorKind::unavailable, "its job is not known to have started; ask again");
  }
  return parts_.store.write(Durable::yes, [&](db::Transaction& transaction) -> Status {
    TRY_SET(const store::RunHead head, look(transaction.db()));
    if (shown == Shown::again) return {};
    return store::set_attempt_token(transaction, head, attempt.number, handover->token,
                                    parts_.clock.wall());
  });
}

Result<std::vector<Assignment>> AllRuns::take_over(const AttemptId& attempt) {
  const std::string token = new_secret(kAttemptTokenPrefix);
  int nodes = 1;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(transaction.db(), attempt.run));
    TRY(check_live(head, attempt));
    nodes = head.nodes;
    return store::set_attempt_token(transaction, head, attempt.number, token, parts_.clock.wall());
  };
  TRY(parts_.store.write(Durable::yes, change));
  std::vector<Assignment> told;
  for (int node = 0; node < nodes; ++node) {
    TRY_SET(Assignment one, assignment(attempt, token, node));
    one.server_socket = parts_.addresses.socket;
    one.outage_s = 0;
    told.push_back(std::move(one));
  }
  return told;
}

}  // namespace trainyard::control
