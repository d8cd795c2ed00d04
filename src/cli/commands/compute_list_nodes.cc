// The nodes of a compute, by either name.
#include "cli/commands/commands.h"
#include "cli/compute_view.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr int64_t kRecent = 5;

}  // namespace

Result<int> compute_list_nodes(Context& context) {
  TRY_SET(const std::string name, chosen_compute(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json nodes, api->compute_nodes(workspace, name));
  const int64_t age = nodes.empty() ? 0 : wire::int_member(nodes[0], "seenSecondsAgo").value_or(0);
  if (age > kRecent) {
    context.warn("Slurm does not answer: the nodes are shown as they were " + std::to_string(age) +
                 " s ago");
  }
  Json shaped = Json::array();
  for (const Json& node : nodes) shaped.push_back(shaped_node(context, node));
  TRY(context.print(shaped, node_view(nodes)));
  return kExitOk;
}

}  // namespace trainyard::cli
