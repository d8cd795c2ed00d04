#include <algorithm>

#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/list_printer.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr int kListPage = 500;

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
  TRY_SET(client::Api * api, context.api());

  const WallTime now = context.clock().wall();
  TRY_SET(ListPrinter printer,
          ListPrinter::make(
              context,
              {run_header(), [now](const Json& run) { return run_row(run, now); }, run_raw_row}));
  int left = last.value_or(0);
  std::string cursor;
  do {
    TRY_SET(const client::Page page,
            api->runs(query, last ? std::clamp(left, 1, kListPage) : kListPage, cursor));
    cursor = page.next;
    for (const Json& run : page.items) {
      if (!has_tags(run, args.values("tags"))) continue;
      TRY(printer.add(args.has("minimal") ? minimal(run) : run));
      if (last && --left == 0) break;
    }
  } while (!cursor.empty() && (!last || left > 0));
  TRY(printer.finish());
  return kExitOk;
}

}  // namespace trainyard::cli
