#pragma once

#include <functional>
#include <optional>

#include "cli/context.h"
#include "cli/list_printer.h"

namespace trainyard::cli {

// Prints the newest `last` runs of the query, each as `shape` makes it, page by page as they come.
// Without `last`: all; in a table on a terminal 30, and how many more there are.
Status print_runs(Context& context, const client::RunQuery& query, std::optional<int> last,
                  Columns columns, const std::function<Json(const Json& run)>& shape);

}  // namespace trainyard::cli
