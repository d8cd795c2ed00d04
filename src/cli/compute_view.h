#pragma once

#include "cli/context.h"
#include "cli/output.h"

namespace trainyard::cli {

// A compute of the API in the shapes that the two generations of the command line have for it.
Json compute_json(const Json& compute);        // `compute …`: min_instances, tier.
Json computetarget_json(const Json& compute);  // `computetarget …`: properties.scaleSettings.

// The shape that the command speaks.
Json shaped_compute(const Context& context, const Json& compute);
// Some lines for one compute of the API, a table for a list of them, whatever shape is printed.
View compute_view(Json computes);

}  // namespace trainyard::cli
