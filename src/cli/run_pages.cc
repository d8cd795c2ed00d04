#include "cli/run_pages.h"

#include <algorithm>

namespace trainyard::cli {
namespace {

constexpr int kRunsPage = 500;

}  // namespace

Status print_runs(Context& context, const client::RunQuery& query, std::optional<int> last,
                  Columns columns, const AddRun& add) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(ListPrinter printer, ListPrinter::make(context, std::move(columns)));
  int left = last.value_or(0);
  std::string cursor;
  do {
    TRY_SET(const client::Page page,
            api->runs(query, last ? std::clamp(left, 1, kRunsPage) : kRunsPage, cursor));
    cursor = page.next;
    for (const Json& run : page.items) {
      TRY_SET(const bool added, add(printer, run));
      if (added && last && --left == 0) break;
    }
  } while (!cursor.empty() && (!last || left > 0));
  return printer.finish();
}

}  // namespace trainyard::cli
