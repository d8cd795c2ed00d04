#include "snapshot/merge.h"

#include <doctest/doctest.h>

#include <map>

using namespace trainyard;
using namespace trainyard::snapshot;

namespace {

// Path -> content; "/" is an empty folder.
Tree tree(const std::map<std::string, std::string>& files) {
  Tree made;
  for (const auto& [path, content] : files) {
    if (content == "/") {
      made.entries.push_back({.kind = EntryKind::folder, .path = path});
    } else {
      made.entries.push_back({EntryKind::file, path, content.size(), sha256(content), {}});
    }
  }
  return made;
}

Merged merge_all(const std::vector<Tree>& trees, const Tree& before = {}) {
  std::vector<NodeTree> nodes;
  for (size_t i = 0; i < trees.size(); ++i) nodes.push_back({static_cast<int>(i), &trees[i]});
  Merged merged = merge(nodes, before);
  CHECK(check(merged.tree).has_value());
  return merged;
}

}  // namespace

TEST_CASE("outputs of nodes become one folder") {
  const Merged merged = merge_all(
      {tree({{"a", "1"}, {"d/x", "2"}}), tree({{"b", "3"}}), tree({{"a", "1"}, {"d/y", "4"}})});
  CHECK(merged.tree == tree({{"a", "1"}, {"b", "3"}, {"d/x", "2"}, {"d/y", "4"}}));
  CHECK(merged.apart.empty());
}

TEST_CASE("of a path that differs the lowest node's stays, and no other is lost") {
  const Merged merged = merge_all(
      {tree({{"b", "0"}}), tree({{"a", "1"}}), tree({{"a", "2"}, {"b", "0"}}), tree({{"a", "3"}})});
  CHECK(merged.tree == tree({{".node-2/a", "2"}, {".node-3/a", "3"}, {"a", "1"}, {"b", "0"}}));
  CHECK(merged.apart == std::vector<std::string>{".node-2/a", ".node-3/a"});
}

TEST_CASE("a file where another node has a folder is set apart") {
  CHECK(merge_all({tree({{"x", "file"}}), tree({{"x/y", "1"}})}).tree ==
        tree({{".node-1/x/y", "1"}, {"x", "file"}}));
  CHECK(merge_all({tree({{"x/y", "1"}}), tree({{"x", "file"}})}).tree ==
        tree({{".node-1/x", "file"}, {"x/y", "1"}}));
}

TEST_CASE("an empty folder gives way to what lies in it on another node") {
  CHECK(merge_all({tree({{"x", "/"}}), tree({{"x/y", "1"}})}).tree == tree({{"x/y", "1"}}));
  CHECK(merge_all({tree({{"x/y", "1"}}), tree({{"x", "/"}})}).tree == tree({{"x/y", "1"}}));
  CHECK(merge_all({tree({{"x", "/"}}), tree({{"x", "/"}})}).tree == tree({{"x", "/"}}));
}

TEST_CASE("what a node left as it was gives way to what another wrote") {
  const Tree before = tree({{"log", "old"}, {"same", "1"}});
  const Merged merged = merge_all(
      {tree({{"log", "old"}, {"same", "1"}}), tree({{"log", "new"}, {"same", "1"}})}, before);
  CHECK(merged.tree == tree({{"log", "new"}, {"same", "1"}}));
  CHECK(merged.apart.empty());
}

TEST_CASE(
    "two that wrote the same path are told apart again, and stay so when they write no more") {
  const Tree before = tree({{".node-1/x", "b"}, {"x", "a"}});
  // Each began with its own.
  CHECK(merge_all({tree({{"x", "a"}}), tree({{"x", "b"}})}, before).tree == before);
  CHECK(merge_all({tree({{"x", "a2"}}), tree({{"x", "b2"}})}, before).tree ==
        tree({{".node-1/x", "b2"}, {"x", "a2"}}));
}
