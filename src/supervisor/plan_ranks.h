#pragma once

#include <vector>

#include "runtime/handover.h"
#include "supervisor/context.h"

namespace trainyard::supervisor {

// What the ranks of this node are started by, once every node is known; in their containers where
// the environment is one.
Result<std::vector<runtime::RankCommand>> plan_ranks(Context& context);

// The same for the job's preparation. It sees what a rank sees, less the variables by which ranks
// meet: it comes before they can.
Result<runtime::RankCommand> plan_preparation(Context& context);

}  // namespace trainyard::supervisor
