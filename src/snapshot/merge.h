#pragma once

#include <span>
#include <string>
#include <vector>

#include "snapshot/tree.h"

namespace trainyard::snapshot {

// What one node put out.
struct NodeTree {
  int node = 0;
  const Tree* tree = nullptr;
};

struct Merged {
  Tree tree;
  // Paths that differed: the lowest node's is in its place, another's below ".node-N/". Those
  // below it, by node.
  std::vector<std::string> apart;
};

// The outputs of several nodes as one folder, `trees` by rising node.
Merged merge(std::span<const NodeTree> trees);

}  // namespace trainyard::snapshot
