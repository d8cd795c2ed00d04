#pragma once

#include <vector>

#include "db/db.h"
#include "model/gang.h"

namespace trainyard::store {

// The nodes of an attempt on `count` of them, in order; one that was not heard of is empty.
Result<std::vector<NodePart>> attempt_nodes(db::Db& db, int64_t run, int attempt, int count);
Status save_attempt_node(db::Transaction& transaction, int64_t run, int attempt,
                         const NodePart& part);

}  // namespace trainyard::store
