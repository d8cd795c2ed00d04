#pragma once

#include "cli/context.h"
#include "cli/output.h"

namespace trainyard::cli {

// A compute of the API in the shapes that the two generations of the command line have for it.
Json compute_json(const Json& compute);        // `compute …`: min_instances, tier.
Json computetarget_json(const Json& compute);  // `computetarget …`: properties.scaleSettings.

// A node in the words of either: node_state and run_id, nodeState and runId; and in ours beside.
Json compute_node_json(const Json& node);
Json computetarget_node_json(const Json& node);
Json shaped_node(const Context& context, const Json& node);
View node_view(Json nodes);

// The shape that the command speaks.
Json shaped_compute(const Context& context, const Json& compute);
// Some lines for one compute of the API, a table for a list of them, whatever shape is printed.
View compute_view(Json computes);

}  // namespace trainyard::cli
