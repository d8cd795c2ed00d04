#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/run_names.h"
#include "cli/run_pages.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunListRows[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME", "Only this experiment's."},
    {"--status", Takes::value, "STATUS",
     "Only those in this state, or in one of several by commas: Running,Completed, …"},
    {"--compute-target-name --target --ct", Takes::value, "NAME", "Only those of this target."},
    {"--tags --tag", Takes::list, "K=V", "Only those with all of these tags; K alone: any value."},
    {"--user", Takes::value, "NAME", "Only this user's."},
    {"--last --limit -n", Takes::value, "N",
     "The newest N (default: all; in a table on a terminal 30)."},
    {"--minimal", Takes::nothing, "", "Only id, experiment, status and times."},
    {"--parent-run-id", Takes::value, "RUN", "Only this run's children."},
    {"--deleted", Takes::nothing, "",
     "Only deleted runs that can be restored, with the time until when."},
    {"--filter", Takes::value, "FILTER", "", Since::later},
    {"--order-by", Takes::value, "ORDER", "", Since::later},
    {"--pipeline-run-id", Takes::value, "RUN", "", Since::later},
};

constexpr std::string_view kMinimal[] = {"id",        "runId",          "name",      "experiment",
                                         "status",    "createdAt",      "startedAt", "endedAt",
                                         "deletedAt", "restorableUntil"};

// {"K": "V", "K": null}: null is any value.
Json wanted_tags(const std::vector<std::string>& pairs) {
  Json tags = Json::object();
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    tags[pair.substr(0, equals)] =
        equals == std::string::npos ? Json() : Json(pair.substr(equals + 1));
  }
  return tags;
}

Columns deleted_columns(WallTime now) {
  const auto row = [](const Json& run, std::string deleted) {
    return std::vector{cell_of(run, "id"),     cell_of(run, "experiment"),
                       cell_of(run, "status"), cell_of(run, "user"),
                       std::move(deleted),     cell_of(run, "restorableUntil")};
  };
  return {{"RUN", "EXPERIMENT", "STATUS", "USER", "DELETED", "RESTORABLE UNTIL"},
          [=](const Json& run) { return row(run, ago(wire::member(run, "deletedAt"), now)); },
          [=](const Json& run) { return row(run, cell_of(run, "deletedAt")); }};
}

Json minimal(const Json& run) {
  Json out = Json::object();
  for (const std::string_view key : kMinimal) {
    if (const auto found = run.find(key); found != run.end()) out[std::string(key)] = *found;
  }
  return out;
}

}  // namespace

constinit const std::span<const Option> kRunListOptions = kRunListRows;

Result<int> run_list(Context& context) {
  const Args& args = context.args();
  TRY_SET(const std::optional<int> last, int_option(args, "last", 1));
  client::RunQuery query{.experiment = args.value("experiment-name"),
                         .status = args.value("status"),
                         .target = args.value("compute-target-name"),
                         .user = args.value("user"),
                         .parent = args.value("parent-run-id")};
  if (!query.status.empty()) {
    for (const std::string& word : split(query.status, ','))
      TRY(run_status_in_any_case(trim(word)));
  }
  if (!query.parent.empty()) {
    TRY_SET(const RunId parent, find_run(context, query.parent));
    query.parent = parent.value;
  }
  if (args.has("tags")) query.tags = wire::dump(wanted_tags(args.values("tags")));
  TRY_SET(query.workspace, context.workspace());
  if (args.has("deleted")) query.deleted = "only";
  const WallTime now = context.clock().wall();
  const auto shape = [&](const Json& run) { return args.has("minimal") ? minimal(run) : run; };
  const Columns columns =
      args.has("deleted")
          ? deleted_columns(now)
          : Columns{run_header(), [now](const Json& run) { return run_row(run, now); },
                    run_raw_row};
  TRY(print_runs(context, query, last, columns, shape));
  return kExitOk;
}

}  // namespace trainyard::cli
