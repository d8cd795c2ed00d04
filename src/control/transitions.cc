#include "control/transitions.h"

#include <algorithm>

#include "model/report.h"
#include "store/attempt_nodes.h"

namespace trainyard::control {
namespace {

// The events' kinds of model/run.h.
std::string kind_of(const RunEvent& event) {
  struct Kind {
    std::string operator()(const Enqueued&) const { return "queued"; }
    std::string operator()(const Claimed&) const { return "provisioning"; }
    std::string operator()(const PlaceFailed&) const { return "lost"; }
    std::string operator()(const Reported& reported) const {
      return std::string(to_string(reported.kind));
    }
    std::string operator()(const Ended& ended) const {
      const EndCause cause = ended.end.cause;
      return cause == EndCause::lost || cause == EndCause::evicted ? "lost" : "ended";
    }
    std::string operator()(const CancelAsked&) const { return "cancel_requested"; }
    std::string operator()(const Unprepared&) const { return "ended"; }
    std::string operator()(const BegunOutside&) const { return "running"; }
    std::string operator()(const EndedOutside&) const { return "ended"; }
  };
  return std::visit(Kind{}, event);
}

// Of a single node's phase.
bool user_code_may_have_run(std::string_view phase) {
  using enum ReportKind;
  return !phase.empty() && phase != to_string(preparing) && phase != to_string(building) &&
         phase != to_string(built);
}

std::string again_text(const RunEvent& event) {
  const auto* ended = std::get_if<Ended>(&event);
  if (ended != nullptr && ended->end.cause == EndCause::evicted) {
    return "waits again: its node was taken away";
  }
  return "waits again: the attempt was lost before its program ran";
}

std::string retry_text(const RunLife& life, const std::string& why) {
  return "is tried again (" + std::to_string(life.retries) + " of " +
         std::to_string(life.retry.max) + ")" + (why.empty() ? "" : ": " + why);
}

// Nobody is left to say how they ended. They end as their parent did.
Result<std::vector<RunId>> end_children(db::Transaction& transaction, const store::RunHead& head) {
  TRY_SET(const std::vector<RunId> children, store::open_children(transaction.db(), head.number));
  std::vector<RunId> all;
  for (const RunId& child : children) {
    TRY_SET(store::RunHead child_head, store::run_head(transaction.db(), child));
    const std::string why = head.life.status == RunStatus::completed
                                ? std::string()
                                : "its parent " + head.id.value + " ended: " + head.life.error;
    TRY_SET(const Applied below, apply(transaction, child_head, EndedOutside{head.life.status, why},
                                       {.at = *head.ended}));
    all.push_back(child);
    all.insert(all.end(), below.children.begin(), below.children.end());
  }
  return all;
}

}  // namespace

bool Applied::has(RunAction action) const {
  return std::find(actions.begin(), actions.end(), action) != actions.end();
}

Result<Applied> apply(db::Transaction& transaction, store::RunHead& head, const RunEvent& event,
                      const Moment& moment) {
  TRY_SET(Step step, trainyard::advance(head.life, event));
  const bool was_live = head.life.attempt > 0;
  const int retries_before = head.life.retries;
  head.life = std::move(step.life);
  if (head.life.status != RunStatus::queued) head.held.clear();
  const auto add = [&](std::string kind, std::string text) {
    return store::add_event(transaction, head,
                            {.at = moment.at,
                             .attempt = head.life.attempt,
                             .kind = std::move(kind),
                             .text = std::move(text)});
  };
  const bool over = is_final(head.life.status);
  const std::string kind = kind_of(event);
  if (kind != "ended") TRY(add(kind, moment.text));
  if (over) {
    TRY(add("ended", head.life.error));
    head.ended = head.event_at;
  } else if (was_live && head.life.status == RunStatus::queued) {
    TRY(add("queued", head.life.retries > retries_before ? retry_text(head.life, moment.text)
                                                         : again_text(event)));
  }
  TRY(store::save_run(transaction, head));
  Applied applied{{head.id, head.life.attempt}, head.queue, std::move(step.actions), {}};
  if (over) {
    TRY_SET(applied.children, end_children(transaction, head));
  }
  return applied;
}

Result<Applied> let_go_of(db::Transaction& transaction, store::RunHead& head, WallTime now) {
  head.held.clear();
  TRY(store::add_event(transaction, head,
                       {.at = now, .attempt = head.life.attempt, .kind = "queued"}));
  TRY(store::save_run(transaction, head));
  return Applied{{head.id, head.life.attempt}, head.queue, {}, {}};
}

Status check_live(const store::RunHead& head, const AttemptId& attempt) {
  const std::string which = "attempt " + attempt.str();
  if (is_final(head.life.status)) {
    return fail(ErrorKind::conflict,
                which + " is over: the run is " + std::string(to_string(head.life.status)));
  }
  if (head.life.attempt != attempt.number) {
    return fail(ErrorKind::conflict,
                which + " is not the newest: that is " + std::to_string(head.life.attempt));
  }
  if (head.life.status == RunStatus::queued) {
    return fail(ErrorKind::conflict, which + " was lost; the run waits for the next one");
  }
  return {};
}

Result<std::optional<Applied>> apply_loss(db::Transaction& transaction, const Loss& loss) {
  TRY_SET(store::RunHead head, store::run_head(transaction.db(), loss.attempt.run));
  if (!check_live(head, loss.attempt)) return std::optional<Applied>();
  TRY_SET(store::AttemptRow row,
          store::attempt_row(transaction.db(), head.number, loss.attempt.number));
  AttemptEnd end;
  end.cause = loss.refused ? EndCause::refused : loss.evicted ? EndCause::evicted : EndCause::lost;
  end.exit_code = 1;
  end.ranks_started = user_code_may_have_run(row.phase);
  if (head.nodes > 1) {
    TRY_SET(const std::vector<NodePart> parts,
            store::attempt_nodes(transaction.db(), head.number, loss.attempt.number, head.nodes));
    end.ranks_started = any_started(parts);
  }
  end.error = loss.why;
  end.cpu_seconds = row.attempt.cpu_seconds;
  end.memory_peak_bytes = row.attempt.memory_peak_bytes;
  const RunEvent event = loss.placed
                             ? RunEvent(Ended{loss.attempt.number, end})
                             : RunEvent(PlaceFailed{loss.attempt.number, loss.why, loss.refused});
  TRY_SET(Applied applied, apply(transaction, head, event, {.at = loss.at, .text = loss.why}));
  row.attempt.ended = head.event_at;
  row.attempt.end = std::move(end);
  TRY(store::save_attempt(transaction, head.number, row));
  return std::optional<Applied>(std::move(applied));
}

}  // namespace trainyard::control
