#pragma once

#include <optional>
#include <string>

#include "model/assignment.h"
#include "snapshot/tree.h"

namespace trainyard::supervisor {

// What a node of several gets back of the outputs that all of them left: what they have in common,
// and in place of it, where it had another, its own from below ".node-N/".
snapshot::Tree tree_of_node(const snapshot::Tree& merged, int node);

// Where a node finds a log file of an earlier attempt, "logs/…"; nothing if it is another's. The
// first node's are plainly below logs/, another's below "logs/.node-N/".
std::optional<std::string> log_of_node(const std::string& path, const Assignment& assignment);

}  // namespace trainyard::supervisor
