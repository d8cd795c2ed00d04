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

// The outputs of several nodes as one folder, `trees` by rising node. `before` is the folder that
// every node began with, with its own files of ".node-N/" in their place: what a node has left as
// it was gives way to what another has written.
Merged merge(std::span<const NodeTree> trees, const Tree& before = {});

}  // namespace trainyard::snapshot
