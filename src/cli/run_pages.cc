#include "cli/run_pages.h"

#include <algorithm>

#include "cli/console.h"

namespace trainyard::cli {
namespace {

constexpr int kRunsPage = 200;  // The server lets longer pages wait for their turn.
constexpr int kRunsOnScreen = 30;
constexpr int kRunsCounted = 50;  // Of those not shown: each costs as much as one that is.

Status say_how_many_more(Context& context, client::Api& api, const client::RunQuery& query,
                         std::string_view cursor) {
  TRY_SET(const client::Page page, api.runs(query, kRunsCounted, cursor));
  const bool one = page.next.empty() && page.items.size() == 1;
  const std::string count =
      (page.next.empty() ? "" : "more than ") + std::to_string(page.items.size());
  context.say(count + (one ? " older run is" : " older runs are") +
              " not shown; --last N shows the newest N");
  return {};
}

// For whoever looks at an empty table, not for programs.
void say_none(const Context& context, const client::RunQuery& query) {
  if (!context.screen().error_terminal) return;
  const client::RunQuery everything{.workspace = query.workspace};
  if (query == everything) {
    context.say("no runs in workspace " + query.workspace +
                " yet; start one with: trainyard submit -- python train.py");
  } else {
    context.say("no run in workspace " + query.workspace +
                " fits; all of them are listed by: trainyard run list");
  }
}

}  // namespace

Status print_runs(Context& context, const client::RunQuery& query, std::optional<int> last,
                  Columns columns, const std::function<Json(const Json& run)>& shape) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(ListPrinter printer, ListPrinter::make(context, std::move(columns)));
  TRY_SET(const Format format, context.format());
  const bool on_screen = !last && format == Format::table && context.screen().out_terminal;
  if (on_screen) last = kRunsOnScreen;
  int left = last.value_or(0);
  bool any = false;
  std::string cursor;
  do {
    TRY_SET(const client::Page page,
            api->runs(query, last ? std::clamp(left, 1, kRunsPage) : kRunsPage, cursor));
    cursor = page.next;
    for (const Json& run : page.items) TRY(printer.add(shape(run)));
    any = any || !page.items.empty();
    left -= static_cast<int>(page.items.size());
  } while (!cursor.empty() && (!last || left > 0));
  TRY(printer.finish());
  if (!any) say_none(context, query);
  if (on_screen && !cursor.empty()) TRY(say_how_many_more(context, *api, query, cursor));
  return {};
}

}  // namespace trainyard::cli
