#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/run_names.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunLogsRows[] = {
    {"--follow -f", Takes::nothing, "", "Go on until the run is over, and exit as it did."},
    {"--all", Takes::nothing, "", "All of your runs in the workspace that are not over."},
    {"--rank", Takes::value, "R", "Only this rank's."},
    {"--attempt", Takes::value, "A", "Only this attempt's."},
    {"--tail", Takes::value, "N", "Only the last N lines of each rank."},
    {"--since", Takes::value, "TIME", "Refused: a console keeps no times of its lines."},
    {"--timestamps", Takes::nothing, "", "Refused, for the same reason."},
};
// What monitor-logs has of them: it always follows.
constexpr auto kMonitorOptions = std::span(kRunLogsRows).subspan(1);

std::string console_path(int ranks, int rank) {
  if (ranks == 1) return "user_logs/std_log.txt";
  return "user_logs/std_log_process_" + std::to_string(rank) + ".txt";
}

// The newest attempt, or what is asked for when that is an older one.
Result<std::optional<int>> older_attempt(const Json& run, std::optional<int> attempt) {
  if (!attempt) return std::optional<int>();
  const auto attempts = run.find("attempts");
  const int count = attempts == run.end() ? 0 : static_cast<int>(attempts->size());
  if (*attempt > count) {
    return fail(ErrorKind::not_found,
                "run " + cell_of(run, "id") + ": no attempt " + std::to_string(*attempt),
                "It had " + std::to_string(count) + ".");
  }
  return *attempt < count ? attempt : std::nullopt;
}

// Where to begin and, for an older attempt, to end.
Status set_stretch(client::Api& api, const RunId& id, std::optional<int> attempt,
                   std::optional<int> older, std::optional<int> tail, FollowOptions& options) {
  if (!tail && (!attempt || *attempt == 1) && !older) return {};
  const auto ranks = static_cast<size_t>(options.ranks);
  options.from.assign(ranks, 0);
  if (older) options.to.assign(ranks, 0);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (options.rank && *options.rank != rank) continue;
    const auto at = static_cast<size_t>(rank);
    const std::string path = console_path(options.ranks, rank);
    if (attempt) {
      TRY_SET(const auto stretch, api.attempt(id, path, *attempt));
      options.from[at] = stretch.begin;
      if (older) options.to[at] = stretch.end;
    }
    if (tail) {
      TRY_SET(const auto stretch, api.tail(id, path, *tail));
      options.from[at] = std::max(options.from[at], stretch.begin);
    }
  }
  return {};
}

// Options of other tools' `logs` that people try. The console keeps bytes and no times.
Status check_times(const Args& args) {
  for (const std::string key : {"since", "timestamps"}) {
    if (!args.has(key)) continue;
    return fail(ErrorKind::invalid, "--" + key + ": a console keeps no times of its lines",
                "--tail N shows the last N lines; when each phase began: trainyard run show RUN. "
                "A script can print times itself.");
  }
  return {};
}

Result<int> show_log(Context& context, const RunId& id, bool follow) {
  const Args& args = context.args();
  FollowOptions options;
  TRY_SET(options.rank, int_option(args, "rank", 0));
  TRY_SET(const std::optional<int> attempt, int_option(args, "attempt", 1));
  TRY_SET(const std::optional<int> tail, int_option(args, "tail", 0));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(id));
  options.ranks = run.value("rankCount", 1);
  if (options.rank && *options.rank >= options.ranks) {
    return fail(ErrorKind::not_found,
                "run " + id.value + ": no rank " + std::to_string(*options.rank),
                "Its ranks are 0 to " + std::to_string(options.ranks - 1) + ".");
  }
  TRY_SET(const std::optional<int> older, older_attempt(run, attempt));
  TRY(set_stretch(*api, id, attempt, older, tail, options));
  if (!follow || older) {  // An attempt that is over prints no more.
    TRY(show_console(context, id, options));
    return kExitOk;
  }
  Interrupts interrupts([&] { say_interrupted(context, id); }, [&] { context.interrupt(); });
  TRY_SET(const Followed followed, follow_run(context, id, options, interrupts));
  return finish_followed(context, id, followed);
}

// Several runs one after the other, each behind a line with its id on stderr.
Result<int> show_logs(Context& context, bool follow) {
  TRY(check_times(context.args()));
  TRY_SET(const std::vector<RunId> runs, named_or_all(context, kOpenStatuses));
  int first_code = kExitOk;
  for (const RunId& id : runs) {
    if (runs.size() > 1) context.say("==> run " + id.value + " <==");
    TRY_SET(const int code, show_log(context, id, follow));
    if (code == kExitInterrupted || code == kExitPipe) return code;
    if (first_code == kExitOk) first_code = code;
  }
  return first_code;
}

}  // namespace

constinit const std::span<const Option> kRunLogsOptions = kRunLogsRows;
constinit const std::span<const Option> kRunMonitorLogsOptions = kMonitorOptions;
// `logs` always follows too, and people type -f.
constinit const std::span<const Option> kLogsOfRunsOptions = kRunLogsRows;

Result<int> run_logs(Context& context) { return show_logs(context, context.args().has("follow")); }

Result<int> run_monitor_logs(Context& context) { return show_logs(context, true); }

}  // namespace trainyard::cli
