#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/machine.h"

namespace trainyard::cli {

// What `submit` does by itself, for clients that are no command line of ours.
Result<int> node_own(Context& context) {
  TRY_SET(const Place where, context.place());
  if (!where.remote()) {
    return fail(ErrorKind::invalid, "node own: no server elsewhere was named",
                "Set TRAINYARD_SERVER to its address and TRAINYARD_TOKEN to your token.");
  }
  TRY_SET(const OwnMachine own, own_machine(context, where));
  TRY(context.print({{"key", own.key}, {"gpus", own.gpus}}, any_view()));
  return kExitOk;
}

}  // namespace trainyard::cli
