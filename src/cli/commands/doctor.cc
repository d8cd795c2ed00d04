#include <algorithm>

#include "base/version.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/findings.h"

namespace trainyard::cli {
namespace {

Finding look_at_server(Context& context, const Place& place) {
  const auto api = context.api_if_there();
  if (!api) {
    if (!place.remote())
      return {Grade::ok, "server", "not running; the next command starts it", ""};
    return {Grade::fail, "server", api.error().message, "Check TRAINYARD_SERVER and the network."};
  }
  const auto server = (*api)->server(false);
  if (!server) {
    return {Grade::fail, "server", server.error().message,
            server.error().hint.empty() ? "See its log." : server.error().hint};
  }
  const std::string version = cell_of(*server, "version");
  if (version != kVersion) {
    return {Grade::warn, "server",
            "version " + version + ", this command is " + std::string(kVersion),
            "Restart it with: trainyard server stop && trainyard server start"};
  }
  return {Grade::ok, "server", "version " + version + " at " + cell_of(*server, "url"), ""};
}

// Those whose engine does not answer. A server that is not there has said so already.
void look_at_computes(Context& context, std::vector<Finding>& findings) {
  const auto api = context.api_if_there();
  const auto workspace = context.workspace();
  if (!api || !workspace) return;
  const auto computes = (*api)->computes(*workspace);
  if (!computes) return;
  for (const Json& compute : *computes) {
    const std::string trouble = cell_of(compute, "trouble");
    if (trouble.empty()) continue;
    findings.push_back({Grade::warn, "compute " + cell_of(compute, "name"), trouble,
                        "Runs for it wait until it answers."});
  }
}

Json to_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"status", std::string(to_string(finding.grade))},
                    {"name", finding.name},
                    {"message", finding.words},
                    {"advice", finding.advice}});
  }
  return list;
}

// "warn  disk  1.2 GB free at /home. Free some space."
std::string in_words(const Json& list) {
  Table table;
  for (const Json& finding : list) {
    const std::string advice = cell_of(finding, "advice");
    table.rows.push_back({cell_of(finding, "status"), cell_of(finding, "name"),
                          cell_of(finding, "message") + (advice.empty() ? "" : ". " + advice)});
  }
  return render_table(table, {});
}

}  // namespace

Result<int> doctor(Context& context) {
  TRY_SET(const Place place, context.place());
  std::vector<Finding> findings = {
      look_at_machine(),
      look_at_gpus(),
      look_at_home(place.home),
      look_at_disk(place.home),
      look_at_namespaces(),
      look_at_python(),
      look_at_program("uv", "uv", "builds virtual environments",
                      "not here; virtual environments are built by pip, which takes longer"),
      look_at_container_engine(),
      look_at_bubblewrap(),
      look_at_slurm(),
      look_at_fuse(),
      look_at_server(context, place),
      look_at_clock(context.clock().wall()),
  };
  look_at_computes(context, findings);
  TRY(context.print(to_json(findings), {.table =
                                            [](const Json& list) {
                                              static constexpr std::string_view kKeys[] = {
                                                  "status", "name", "message", "advice"};
                                              return plain_table(list, kKeys);
                                            },
                                        .text = in_words}));
  const bool failed = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.grade == Grade::fail;
  });
  return failed ? kExitUnavailable : kExitOk;
}

}  // namespace trainyard::cli
