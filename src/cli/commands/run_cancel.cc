#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/run_view.h"

namespace trainyard::cli {

Result<int> run_cancel(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->cancel(id));
  const WallTime now = context.clock().wall();
  TRY(context.print(run, {.table = [now](const Json& canceled) {
                      return Table{run_header(), {run_row(canceled, now)}};
                    }}));
  return kExitOk;
}

Result<int> run_wait(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(id));
  const RunId whole{cell_of(run, "id")};
  TRY_SET(const Followed followed, wait_for_run(context, whole));
  return finish_followed(context, whole, followed);
}

}  // namespace trainyard::cli
