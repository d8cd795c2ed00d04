#include "model/run_state.h"

#include <array>
#include <optional>

#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::array<std::pair<RunStatus, std::string_view>, 11> kNames = {{
    {RunStatus::not_started, "NotStarted"},
    {RunStatus::queued, "Queued"},
    {RunStatus::provisioning, "Provisioning"},
    {RunStatus::preparing, "Preparing"},
    {RunStatus::starting, "Starting"},
    {RunStatus::running, "Running"},
    {RunStatus::finalizing, "Finalizing"},
    {RunStatus::cancel_requested, "CancelRequested"},
    {RunStatus::completed, "Completed"},
    {RunStatus::failed, "Failed"},
    {RunStatus::canceled, "Canceled"},
}};

// With an attempt that has not ended.
bool is_live(RunStatus status) {
  return status >= RunStatus::provisioning && status <= RunStatus::cancel_requested;
}

std::unexpected<Error> misfit(const RunLife& life, std::string_view what) {
  return fail(ErrorKind::conflict, std::string(what) + " does not fit a run that is " +
                                       std::string(to_string(life.status)));
}

Status check_attempt(const RunLife& life, int attempt) {
  if (is_final(life.status)) {
    return fail(ErrorKind::conflict, "the run is over: " + std::string(to_string(life.status)));
  }
  if (attempt != life.attempt || !is_live(life.status)) {
    return fail(ErrorKind::conflict, "attempt " + std::to_string(attempt) +
                                         " is not the live one: the newest is " +
                                         std::to_string(life.attempt));
  }
  return {};
}

RunLife finished(RunLife life, RunStatus status, int exit_code, std::string error) {
  life.status = status;
  life.exit_code = exit_code;
  life.error = std::move(error);
  return life;
}

// The end of a run that was to be canceled, and why.
std::string canceled_words(const RunLife& life, std::string otherwise) {
  return life.cancel_asked && !life.error.empty() ? life.error : std::move(otherwise);
}

// Back to the queue, if its policy says so for this cause and nobody wants it gone.
std::optional<Step> try_again(const RunLife& life, std::string_view cause) {
  if (life.cancel_asked || life.retries >= life.retry.max || !retries(life.retry, cause)) {
    return std::nullopt;
  }
  RunLife next = life;
  next.status = RunStatus::queued;
  next.error.clear();
  ++next.retries;
  return Step{std::move(next), {RunAction::release, RunAction::requeue}};
}

// An attempt that ended before user code ran is simply made again, unless somebody wants it gone or
// it keeps happening.
Step lost(RunLife life, bool ranks_started, std::string why) {
  if (life.cancel_asked) {
    std::string words = canceled_words(life, "canceled; " + why);
    return {finished(std::move(life), RunStatus::canceled, 1, std::move(words)),
            {RunAction::release}};
  }
  if (!ranks_started && ++life.lost_early < kLostEarlyMax) {
    life.status = RunStatus::queued;
    life.error.clear();
    return {std::move(life), {RunAction::release, RunAction::requeue}};
  }
  if (std::optional<Step> again = try_again(life, "lost")) return *std::move(again);
  return {finished(std::move(life), RunStatus::failed, 1, std::move(why)), {RunAction::release}};
}

// Not the run's fault: it goes on elsewhere, as often as it takes.
Step evicted(RunLife life, const std::string& why) {
  if (life.cancel_asked) {
    std::string words = canceled_words(life, "canceled; " + why);
    return {finished(std::move(life), RunStatus::canceled, 1, std::move(words)),
            {RunAction::release}};
  }
  life.status = RunStatus::queued;
  life.error.clear();
  return {std::move(life), {RunAction::release, RunAction::requeue}};
}

Result<Step> on(const RunLife& life, const Enqueued&) {
  if (life.status != RunStatus::not_started) return misfit(life, "queueing");
  RunLife next = life;
  next.status = RunStatus::queued;
  return Step{next, {RunAction::requeue}};
}

Result<Step> on(const RunLife& life, const Claimed&) {
  if (life.status != RunStatus::queued) return misfit(life, "placing");
  RunLife next = life;
  next.status = RunStatus::provisioning;
  ++next.attempt;
  return Step{next, {RunAction::place}};
}

Result<Step> on(const RunLife& life, const PlaceFailed& event) {
  TRY(check_attempt(life, event.attempt));
  if (event.for_good && !life.cancel_asked) {
    return Step{finished(life, RunStatus::failed, 1, event.why), {RunAction::release}};
  }
  return lost(life, false, event.why);
}

// A phase only ever goes forward; a report that would go back is late and changes nothing.
Result<Step> on(const RunLife& life, const Reported& event) {
  TRY(check_attempt(life, event.attempt));
  RunLife next = life;
  const auto reach = [&](RunStatus status) {
    if (life.status != RunStatus::cancel_requested && status > life.status) next.status = status;
  };
  switch (event.kind) {
    case ReportKind::preparing:
      reach(RunStatus::preparing);
      break;
    case ReportKind::starting:
      reach(RunStatus::starting);
      break;
    case ReportKind::running:
      reach(RunStatus::running);
      break;
    case ReportKind::finalizing:
      reach(RunStatus::finalizing);
      break;
    case ReportKind::building:
    case ReportKind::built:
    case ReportKind::ready:
    case ReportKind::sample:
    case ReportKind::rank_failed:
      break;
    case ReportKind::ended:
      return fail(ErrorKind::invalid, "an end is reported with what it came to");
  }
  return Step{next, {}};
}

Result<Step> on(const RunLife& life, const Ended& event) {
  TRY(check_attempt(life, event.attempt));
  const AttemptEnd& end = event.end;
  const auto over = [&](RunStatus status, int exit_code, std::string error) -> Result<Step> {
    return Step{finished(life, status, exit_code, std::move(error)), {RunAction::release}};
  };
  const int failure = end.exit_code != 0 ? end.exit_code : 1;
  // A script that called run.fail(); its reason says more than an exit code.
  const bool told_to_fail = !life.cancel_asked && !life.error.empty();
  switch (end.cause) {
    case EndCause::exited:
      // A script that ended by itself before a cancel reached it has its own result.
      if (end.exit_code == 0 && !told_to_fail) return over(RunStatus::completed, 0, "");
      if (std::optional<Step> again = try_again(life, "failed")) return *std::move(again);
      return over(RunStatus::failed, failure, told_to_fail ? life.error : end.error);
    case EndCause::time_limit:
      if (std::optional<Step> again = try_again(life, "time_limit")) return *std::move(again);
      return over(RunStatus::canceled, 1, end.error);
    case EndCause::canceled:
      return over(RunStatus::canceled, 1, canceled_words(life, end.error));
    case EndCause::no_space:
      if (std::optional<Step> again = try_again(life, "no_space")) return *std::move(again);
      [[fallthrough]];
    case EndCause::prepare_failed:
      if (life.cancel_asked) {
        return over(RunStatus::canceled, 1, canceled_words(life, end.error));
      }
      return over(RunStatus::failed, failure, end.error);
    case EndCause::lost:
      return lost(life, end.ranks_started, end.error);
    case EndCause::evicted:
      return evicted(life, end.error);
    case EndCause::peer_failed:
      return fail(ErrorKind::invalid, "a run ends by what stopped its nodes");
    case EndCause::refused:
      return over(life.cancel_asked ? RunStatus::canceled : RunStatus::failed, 1,
                  canceled_words(life, end.error));
  }
  return fail(ErrorKind::internal, "an attempt ended of an unknown cause");
}

Result<Step> on(const RunLife& life, const CancelAsked& event) {
  if (is_final(life.status)) return misfit(life, "cancel");
  RunLife next = life;
  next.cancel_asked = true;
  const auto words = [&](const std::string& otherwise) {
    return event.why.empty() ? otherwise : event.why;
  };
  if (life.interactive) {
    return Step{finished(next, RunStatus::canceled, 1, words("canceled by " + event.by)), {}};
  }
  if (!is_live(life.status)) {
    return Step{finished(next, RunStatus::canceled, 1,
                         words("canceled by " + event.by + " before it started")),
                {}};
  }
  next.status = RunStatus::cancel_requested;
  if (!event.why.empty()) next.error = event.why;
  return Step{next, {RunAction::order_cancel}};
}

Result<Step> on(const RunLife& life, const Unprepared& event) {
  if (life.status != RunStatus::queued) return misfit(life, "failing in the queue");
  return Step{finished(life, RunStatus::failed, 1, event.why), {}};
}

Result<Step> on(const RunLife& life, const BegunOutside&) {
  if (life.status != RunStatus::not_started || !life.interactive) return misfit(life, "beginning");
  RunLife next = life;
  next.status = RunStatus::running;
  return Step{next, {}};
}

Result<Step> on(const RunLife& life, const EndedOutside& event) {
  if (!life.interactive) {
    return fail(ErrorKind::conflict, "the run has a supervisor; only it says how the run ended",
                "A run that is to stop is canceled.");
  }
  if (is_final(life.status)) return misfit(life, "ending");
  if (!is_final(event.status)) {
    return fail(ErrorKind::invalid, "a run ends as Completed, Failed or Canceled");
  }
  const int code = event.status == RunStatus::completed ? 0 : 1;
  return Step{finished(life, event.status, code, event.error), {}};
}

}  // namespace

std::string_view to_string(RunStatus status) {
  for (const auto& [known, name] : kNames) {
    if (known == status) return name;
  }
  return {};
}

Result<RunStatus> run_status_from(std::string_view name) {
  for (const auto& [status, known] : kNames) {
    if (known == name) return status;
  }
  return fail(ErrorKind::invalid, "'" + std::string(name) + "' is not a status",
              "Known: NotStarted, Queued, Provisioning, Preparing, Starting, Running, Finalizing, "
              "CancelRequested, Completed, Failed, Canceled.");
}

Result<RunStatus> run_status_in_any_case(std::string_view word) {
  for (const auto& [status, known] : kNames) {
    if (lower(known) == lower(word)) return status;
  }
  return run_status_from(word);
}

bool is_final(RunStatus status) { return status >= RunStatus::completed; }

Result<Step> advance(const RunLife& life, const RunEvent& event) {
  return std::visit([&](const auto& happened) { return on(life, happened); }, event);
}

}  // namespace trainyard
