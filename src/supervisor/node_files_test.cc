#include "supervisor/node_files.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::supervisor;
using snapshot::Entry;
using snapshot::EntryKind;
using snapshot::Tree;

namespace {

Entry file(const std::string& path, const std::string& bytes) {
  return {.kind = EntryKind::file, .path = path, .size = bytes.size(), .digest = sha256(bytes)};
}

Assignment on_node(int node, int nodes) {
  Assignment assignment;
  assignment.node = node;
  assignment.spec.nodes = nodes;
  return assignment;
}

}  // namespace

TEST_CASE("each node gets what all have, and its own where it had another") {
  const Tree merged{{file(".node-1/state", "one"), file(".node-10/state", "ten"),
                     file(".node-2/deep/only", "two"), file("model", "m"), file("state", "zero")}};
  CHECK(tree_of_node(merged, 0) == Tree{{file("model", "m"), file("state", "zero")}});
  CHECK(tree_of_node(merged, 1) == Tree{{file("model", "m"), file("state", "one")}});
  CHECK(tree_of_node(merged, 2) ==
        Tree{{file("deep/only", "two"), file("model", "m"), file("state", "zero")}});
  CHECK(tree_of_node(merged, 10) == Tree{{file("model", "m"), file("state", "ten")}});
}

TEST_CASE("a folder of one node takes the place of another's file, and the other way round") {
  const Tree merged{{file(".node-1/a/b", "1"), file(".node-1/c", "2"), file("a", "3"),
                     file("c/d", "4"), file("c/e/f", "5"), file("cc", "6")}};
  const Tree own = tree_of_node(merged, 1);
  CHECK(own == Tree{{file("a/b", "1"), file("c", "2"), file("cc", "6")}});
  CHECK(snapshot::check(own));
}

TEST_CASE("a name that only looks like a node's is everybody's") {
  const Tree merged{{file(".node-", "a"), file(".node-7", "c"), file(".node-x/y", "b")}};
  CHECK(tree_of_node(merged, 7) == merged);
}

TEST_CASE("logs come back to the node that wrote them") {
  CHECK(log_of_node("logs/a.txt", on_node(0, 1)) == "logs/a.txt");
  CHECK(log_of_node("logs/.node-1/a.txt", on_node(0, 1)) == "logs/.node-1/a.txt");
  CHECK(log_of_node("logs/a.txt", on_node(0, 2)) == "logs/a.txt");
  CHECK_FALSE(log_of_node("logs/a.txt", on_node(1, 2)));
  CHECK(log_of_node("logs/.node-1/tb/e", on_node(1, 2)) == "logs/tb/e");
  CHECK_FALSE(log_of_node("logs/.node-1/tb/e", on_node(0, 2)));
}
