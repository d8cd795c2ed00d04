#pragma once

#include <functional>
#include <optional>

#include "cli/context.h"
#include "cli/list_printer.h"

namespace trainyard::cli {

// Prints runs page by page as they come. `add` puts one into the list, and says whether it did:
// those that it leaves out do not count for `last`.
using AddRun = std::function<Result<bool>(ListPrinter& printer, const Json& run)>;
Status print_runs(Context& context, const client::RunQuery& query, std::optional<int> last,
                  Columns columns, const AddRun& add);

}  // namespace trainyard::cli
