// The nodes of a compute, by either name.
#include "cli/commands/commands.h"
#include "cli/compute_view.h"
#include "cli/exit.h"

namespace trainyard::cli {

Result<int> compute_list_nodes(Context& context) {
  TRY_SET(const std::string name, chosen_compute(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json nodes, api->compute_nodes(workspace, name));
  Json shaped = Json::array();
  for (const Json& node : nodes) shaped.push_back(shaped_node(context, node));
  TRY(context.print(shaped, node_view(nodes)));
  return kExitOk;
}

}  // namespace trainyard::cli
