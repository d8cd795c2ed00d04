#include <algorithm>

#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/run_pages.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunListRows[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME", "Only this experiment's."},
    {"--status", Takes::value, "STATUS", "Only those in this state: Running, Completed, …"},
    {"--compute-target-name --target --ct", Takes::value, "NAME", "Only those of this target."},
    {"--tags --tag", Takes::list, "K=V", "Only those with all of these tags; K alone: any value."},
    {"--last", Takes::value, "N", "The newest N; else all."},
    {"--minimal", Takes::nothing, "", "Only id, experiment, status and times."},
    {"--parent-run-id", Takes::value, "RUN", "Only this run's children."},
    {"--pipeline-run-id", Takes::value, "RUN", "", Since::later},
};

constexpr std::string_view kMinimal[] = {"id",     "runId",     "name",      "experiment",
                                         "status", "createdAt", "startedAt", "endedAt"};

bool has_tags(const Json& run, const std::vector<std::string>& wanted) {
  const auto tags = run.find("tags");
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& pair) {
    const size_t equals = pair.find('=');
    const auto found = tags == run.end() || !tags->is_object() ? Json::const_iterator{}
                                                               : tags->find(pair.substr(0, equals));
    if (tags == run.end() || !tags->is_object() || found == tags->end()) return false;
    return equals == std::string::npos || cell(*found) == pair.substr(equals + 1);
  });
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
                         .parent = args.value("parent-run-id")};
  if (!query.status.empty()) TRY(run_status_from(query.status));
  TRY_SET(query.workspace, context.workspace());
  const WallTime now = context.clock().wall();
  const auto add = [&](ListPrinter& printer, const Json& run) -> Result<bool> {
    if (!has_tags(run, args.values("tags"))) return false;
    TRY(printer.add(args.has("minimal") ? minimal(run) : run));
    return true;
  };
  TRY(print_runs(context, query, last,
                 {run_header(), [now](const Json& run) { return run_row(run, now); }, run_raw_row},
                 add));
  return kExitOk;
}

}  // namespace trainyard::cli
