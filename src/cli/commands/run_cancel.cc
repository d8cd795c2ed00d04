#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/run_names.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunCancelRows[] = {
    {"--all", Takes::nothing, "", "All of your runs in the workspace that are not over."},
    {"--no-wait", Takes::nothing, "", "Accepted for compatibility: cancel never waits."},
};

Result<std::vector<RunId>> runs_to_cancel(Context& context) {
  TRY_SET(std::vector<RunId> runs, named_or_all(context, kOpenStatuses));
  if (runs.empty() || !context.args().has("all")) return runs;
  TRY(context.confirm("Cancel " + std::to_string(runs.size()) +
                      (runs.size() == 1 ? " run" : " runs") + " of yours?"));
  return runs;
}

// One run as it is, several as a list.
Status print_several(Context& context, const Json& runs) {
  const WallTime now = context.clock().wall();
  const View view{.table = [now](const Json& shown) {
    Table table{run_header(), {}};
    const Json list = shown.is_array() ? shown : Json::array({shown});
    for (const Json& run : list) table.rows.push_back(run_row(run, now));
    return table;
  }};
  return context.print(runs.size() == 1 ? runs.front() : runs, view);
}

}  // namespace

constinit const std::span<const Option> kRunCancelOptions = kRunCancelRows;
constinit const std::span<const Option> kRunWaitOptions = std::span(kRunCancelRows).first(1);

Result<int> run_cancel(Context& context) {
  TRY_SET(const std::vector<RunId> runs, runs_to_cancel(context));
  TRY_SET(client::Api * api, context.api());
  Json canceled = Json::array();
  std::optional<Error> failed;
  // One that cannot be canceled keeps none of the others.
  for (const RunId& id : runs) {
    Result<Json> run = api->cancel(id);
    if (run) {
      canceled.push_back(*std::move(run));
      continue;
    }
    // With --all, a run that ended in the meantime is no failure.
    if (context.args().has("all") && run.error().kind == ErrorKind::conflict) continue;
    if (failed) context.insist(trim(format_error(*failed)));
    failed = run.error();
  }
  if (canceled.empty() && !failed) context.say("no run of yours is running or queued");
  if (!canceled.empty() || !failed) TRY(print_several(context, canceled));
  if (failed) return std::unexpected(*std::move(failed));
  return kExitOk;
}

Result<int> run_wait(Context& context) {
  TRY_SET(const std::vector<RunId> runs, named_or_all(context, kOpenStatuses));
  int first_code = kExitOk;
  if (runs.size() == 1) {
    TRY_SET(const Followed followed, wait_for_run(context, runs.front()));
    return finish_followed(context, runs.front(), followed);
  }
  for (const RunId& id : runs) {
    TRY_SET(const Followed followed, wait_for_run(context, id));
    TRY_SET(const int code, say_end(context, id, followed));
    if (first_code == kExitOk) first_code = code;
  }
  if (!context.format_given() && !context.args().has("output-metadata-file")) return first_code;
  TRY_SET(client::Api * api, context.api());
  Json ended = Json::array();
  for (const RunId& id : runs) {
    TRY_SET(Json run, api->run(id));
    ended.push_back(std::move(run));
  }
  if (context.format_given()) {
    TRY(print_several(context, ended));
  } else {
    TRY(context.write_metadata(ended));
  }
  return first_code;
}

}  // namespace trainyard::cli
