#include "snapshot/merge.h"

#include <map>

namespace trainyard::snapshot {
namespace {

// Entries by path; a folder is there as long as something lies in it.
class Merging {
 public:
  // false: something else is there.
  bool add(const Entry& entry) {
    const auto here = entries_.find(entry.path);
    if (here != entries_.end()) return here->second == entry;
    if (entry.kind == EntryKind::folder && anything_below(entry.path)) return true;
    if (anything_below(entry.path)) return false;
    for (size_t slash = entry.path.find('/'); slash != std::string::npos;
         slash = entry.path.find('/', slash + 1)) {
      const auto above = entries_.find(entry.path.substr(0, slash));
      if (above == entries_.end()) continue;
      if (above->second.kind != EntryKind::folder) return false;
      entries_.erase(above);  // Not an empty one any more.
    }
    entries_.emplace(entry.path, entry);
    return true;
  }

  Tree take() {
    Tree tree;
    for (auto& [path, entry] : entries_) tree.entries.push_back(std::move(entry));
    return tree;
  }

 private:
  bool anything_below(const std::string& path) const {
    const std::string prefix = path + "/";
    const auto next = entries_.lower_bound(prefix);
    return next != entries_.end() && next->first.starts_with(prefix);
  }

  std::map<std::string, Entry> entries_;
};

}  // namespace

Merged merge(std::span<const NodeTree> trees) {
  Merging merging;
  Merged merged;
  for (const NodeTree& node : trees) {
    const std::string prefix = ".node-" + std::to_string(node.node) + "/";
    for (const Entry& entry : node.tree->entries) {
      if (merging.add(entry)) continue;
      Entry apart = entry;
      apart.path = prefix + entry.path;
      merged.apart.push_back(apart.path);
      // A path that was there by that very name keeps what it has: nothing of a lower node is lost.
      merging.add(apart);
    }
  }
  merged.tree = merging.take();
  return merged;
}

}  // namespace trainyard::snapshot
