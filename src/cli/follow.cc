#include "cli/follow.h"

#include <unistd.h>

#include <algorithm>

#include "cli/console.h"
#include "cli/exit.h"
#include "cli/job_view.h"
#include "cli/waiting.h"
#include "model/report.h"

namespace trainyard::cli {
namespace {

constexpr int kWaitRunning_s = 20;
constexpr int kWaitQueued_s = 1;  // Its reason changes without the run's version: look again.
constexpr seconds kLostMax{120};  // A server that is not back by then is an error.
constexpr milliseconds kBetweenLooks{200};

bool has_not_begun(std::string_view status) {
  return status == "NotStarted" || status == "Queued" || status == "Provisioning" ||
         status == "Preparing";
}

Waiting::Then then_of(const client::FollowState& state) {
  const bool ran = state.status == "Running" || state.status == "Completed";
  return ran ? Waiting::Then::begun : Waiting::Then::ended;
}

// Finds the server again. Returns early, without an error, when `given_up` says so.
template <class GivenUp>
Status find_again(Context& context, const Error& why, const GivenUp& given_up) {
  context.say("the server does not answer (" + why.message + "); looking for it again");
  const SteadyTime until = context.clock().steady() + kLostMax;
  for (;;) {
    context.clock().sleep_until(context.clock().steady() + kBetweenLooks, {});
    if (given_up()) return {};
    const auto api = context.reconnect();
    if (api) return {};
    const ErrorKind kind = api.error().kind;
    const bool passing = kind == ErrorKind::unavailable || kind == ErrorKind::conflict;
    if (!passing || context.clock().steady() > until) return std::unexpected(api.error());
  }
}

class Follower {
 public:
  Follower(Context& context, const RunId& id, const FollowOptions& options, Interrupts* interrupts)
      : context_(context),
        id_(id),
        ranks_(options.ranks),
        interrupts_(interrupts),
        to_(options.to),
        console_(options.ranks > 1 && !options.rank ? Prefix::ranks : Prefix::no),
        waiting_({.terminal = context.shows_progress(), .width = context.screen().width},
                 context.clock().steady()) {
    query_.from = options.from;
    query_.from.resize(static_cast<size_t>(std::max(1, options.ranks)));
    query_.version = options.version;
    query_.rank = options.rank;
    query_.wait_s = kWaitQueued_s;
  }

  Result<Followed> run() {
    for (;;) {
      if (interrupts_->wish() == Wish::detach) return end(Outcome::detached);
      if (interrupts_->wish() == Wish::cancel) TRY(cancel());
      auto state = ask();
      if (!state) {
        if (console_.out_closed()) return Followed{Outcome::output_closed, {}, 0};
        TRY(recover(state.error()));
        continue;
      }
      take(*state);
      if (state_.final && state_.bytes == 0) return end(Outcome::ended);
    }
  }

  // Until nothing more comes.
  Status show() {
    do {
      query_.wait_s = 0;
      auto state = ask();
      if (!state) return std::unexpected(std::move(state).error());
      take(*state);
    } while (state_.bytes > 0);
    return console_.finish();
  }

 private:
  Result<client::FollowState> ask() {
    TRY_SET(client::Api * api, context_.api());
    return api->follow(id_, query_, [&](char stream, uint32_t rank, std::string_view bytes) {
      tell(waiting_.over(context_.clock().steady()));
      const Status written = console_.write(stream, rank, within(rank, bytes));
      if (rank >= query_.from.size()) query_.from.resize(rank + 1);
      // Counted as they come: after a lost connection we go on from here.
      query_.from[rank] += bytes.size();
      return written;
    });
  }

  // What of the bytes lies before the end we were given.
  std::string_view within(uint32_t rank, std::string_view bytes) const {
    if (rank >= to_.size() || rank >= query_.from.size()) return bytes;
    const uint64_t at = query_.from[rank];
    return bytes.substr(0, at < to_[rank] ? to_[rank] - at : 0);
  }

  void take(const client::FollowState& state) {
    state_ = state;
    query_.version = state.version;
    for (size_t rank = 0; rank < state.next.size() && rank < query_.from.size(); ++rank) {
      query_.from[rank] = std::max(query_.from[rank], state.next[rank]);
    }
    const bool waits = has_not_begun(state.status);
    query_.wait_s = state.final ? 0 : waits ? kWaitQueued_s : kWaitRunning_s;
    const SteadyTime now = context_.clock().steady();
    // What it prints may be here before the word that it runs.
    if (interrupts_ == nullptr || (waits && state.bytes > 0)) return;
    tell(waits ? waiting_.take(state.reason, now) : waiting_.over(now, then_of(state)));
  }

  void tell(const std::string& text) {
    if (!text.empty() && !context_.args().has("only-show-errors")) {
      static_cast<void>(write_output(STDERR_FILENO, text).has_value());
    }
  }

  Status recover(const Error& error) {
    const auto wishes = [&] {
      return interrupts_->wish() == Wish::detach || interrupts_->wish() == Wish::cancel;
    };
    if (error.kind == ErrorKind::cancelled && wishes()) return {};
    if (error.kind != ErrorKind::unavailable && error.kind != ErrorKind::cancelled) {
      return std::unexpected(error);
    }
    return find_again(context_, error, wishes);
  }

  Status cancel() {
    interrupts_->acknowledge_cancel();
    TRY_SET(client::Api * api, context_.reconnect());
    context_.insist("\ncanceling run " + id_.value);
    const auto run = api->cancel(id_);
    // Over in the meantime: then there is nothing to cancel, and the stream tells the end.
    if (!run && run.error().kind != ErrorKind::conflict) return std::unexpected(run.error());
    return {};
  }

  Result<Followed> end(Outcome outcome) {
    tell(waiting_.over(context_.clock().steady(), then_of(state_)));
    if (Status finished = console_.finish(); !finished) {
      if (!console_.out_closed()) return std::unexpected(std::move(finished).error());
      outcome = Outcome::output_closed;
    }
    return Followed{outcome, state_, ranks_};
  }

  Context& context_;
  RunId id_;
  int ranks_;
  Interrupts* interrupts_;  // None: nothing is waited for.
  std::vector<uint64_t> to_;
  Console console_;
  client::FollowQuery query_;
  client::FollowState state_;
  Waiting waiting_;
};

client::FollowState state_of(const Json& run) {
  client::FollowState state;
  state.status = cell_of(run, "status");
  state.reason = cell_of(run, "reason");
  state.error = cell_of(run, "error");
  if (run.contains("exitCode") && run["exitCode"].is_number_integer()) {
    state.exit_code = run["exitCode"].get<int>();
  }
  const auto status = run_status_from(state.status);
  state.final = status && is_final(*status);
  state.warned = !wire::member(run, "warnings").empty();
  return state;
}

}  // namespace

Result<Followed> follow_run(Context& context, const RunId& id, const FollowOptions& options,
                            Interrupts& interrupts) {
  return Follower(context, id, options, &interrupts).run();
}

Status show_console(Context& context, const RunId& id, const FollowOptions& options) {
  return Follower(context, id, options, nullptr).show();
}

Result<Followed> wait_for_run(Context& context, const RunId& id) {
  int64_t version = 0;
  for (;;) {
    TRY_SET(client::Api * api, context.api());
    const auto run = api->wait(id, version, kWaitRunning_s);
    if (!run) {
      if (run.error().kind != ErrorKind::unavailable) return std::unexpected(run.error());
      TRY(find_again(context, run.error(), [] { return false; }));
      continue;
    }
    const client::FollowState state = state_of(*run);
    if (state.final) return Followed{Outcome::ended, state, 0};
    version = run->value("version", version);
  }
}

namespace {

Status say_warnings(Context& context, const RunId& id, const client::FollowState& state) {
  if (!state.final || !state.warned) return {};
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(id));
  for (const Json& warning : run.value("warnings", Json::array())) {
    if (warning.is_string()) context.say("warning: " + warning.get<std::string>());
  }
  return {};
}

}  // namespace

Result<int> finish_followed(Context& context, const RunId& id, const Followed& followed) {
  if (followed.outcome == Outcome::output_closed) return kExitPipe;
  if (followed.outcome == Outcome::detached) {
    context.insist("Detached; the run goes on. Follow it with: trainyard run logs -f " + id.value +
                   "   Cancel with: trainyard run cancel " + id.value);
    return kExitInterrupted;
  }
  if (context.format_given() || context.args().has("output-metadata-file")) {
    TRY_SET(client::Api * api, context.api());
    TRY_SET(const Json run, api->run(id));
    if (context.format_given()) {
      TRY(print_run(context, run));
    } else {
      TRY(context.write_metadata(shaped_run(context, run)));
    }
  }
  return say_end(context, id, followed);
}

Result<int> say_end(Context& context, const RunId& id, const Followed& followed) {
  const client::FollowState& state = followed.state;
  TRY(say_warnings(context, id, state));
  // "Canceled: canceled" would say nothing.
  const bool says_more = !state.error.empty() && state.error != "canceled";
  if (says_more) {
    // With one rank, its last lines are on the screen already.
    const size_t shown = followed.ranks == 1 ? state.error.find(kLastLinesHead) : std::string::npos;
    context.say(state.status + ": " + state.error.substr(0, shown));
  }
  const int code = exit_code_of(state);
  const std::string status = paint_status(state.status, context.screen().error_colour);
  const std::string end =
      "run " + id.value + ": " + status + ", exit " + std::to_string(code) + "\n";
  static_cast<void>(write_output(STDERR_FILENO, end).has_value());
  return code;
}

void say_interrupted(const Context& context, const RunId& id) {
  context.insist("\nrun " + id.value +
                 ": Ctrl-C again within 2 s cancels it; it goes on otherwise");
}

int exit_code_of(const client::FollowState& state) {
  if (state.exit_code) return *state.exit_code;
  return state.status == "Completed" ? 0 : 1;
}

}  // namespace trainyard::cli
