#include "supervisor/node_files.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace trainyard::supervisor {
namespace {

constexpr std::string_view kLogs = "logs/";
constexpr std::string_view kApart = ".node-";

// Whose a path is.
struct Owned {
  std::optional<int> node;  // None: everybody's.
  std::string_view path;    // As the node itself had it.
};

Owned owner_of(std::string_view path) {
  const size_t slash = path.find('/');
  if (!path.starts_with(kApart) || slash == std::string_view::npos) return {{}, path};
  const std::string_view number = path.substr(kApart.size(), slash - kApart.size());
  const bool digits =
      !number.empty() && number.size() < 7 &&
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return {{}, path};
  return {std::stoi(std::string(number)), path.substr(slash + 1)};
}

using Entries = std::map<std::string, snapshot::Entry>;

// What is a file at one node may be a folder at another: one of them can be there.
void make_room(Entries& entries, const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    entries.erase(path.substr(0, slash));
  }
  const std::string below = path + "/";
  auto each = entries.lower_bound(below);
  while (each != entries.end() && each->first.starts_with(below)) each = entries.erase(each);
}

}  // namespace

snapshot::Tree tree_of_node(const snapshot::Tree& merged, int node) {
  Entries entries;
  for (const snapshot::Entry& entry : merged.entries) {
    if (!owner_of(entry.path).node) entries[entry.path] = entry;
  }
  for (const snapshot::Entry& entry : merged.entries) {
    const Owned owned = owner_of(entry.path);
    if (owned.node != node) continue;
    snapshot::Entry own = entry;
    own.path = owned.path;
    make_room(entries, own.path);
    entries[own.path] = std::move(own);
  }
  snapshot::Tree tree;
  for (auto& [path, entry] : entries) tree.entries.push_back(std::move(entry));
  return tree;
}

std::optional<std::string> log_of_node(const std::string& path, const Assignment& assignment) {
  if (assignment.spec.nodes == 1) return path;
  const Owned owned = owner_of(std::string_view(path).substr(kLogs.size()));
  if (owned.node.value_or(0) != assignment.node) return std::nullopt;
  return std::string(kLogs) + std::string(owned.path);
}

}  // namespace trainyard::supervisor
