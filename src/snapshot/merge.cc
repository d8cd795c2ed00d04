#include "snapshot/merge.h"

#include <map>

namespace trainyard::snapshot {
namespace {

bool same_content(const Entry& a, const Entry& b) {
  return a.kind == b.kind && a.size == b.size && a.digest == b.digest && a.target == b.target;
}

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

Merged merge(std::span<const NodeTree> trees, const Tree& before) {
  std::map<std::string_view, const Entry*> known;
  for (const Entry& entry : before.entries) known.emplace(entry.path, &entry);
  const auto find = [&](const std::string& path) {
    const auto found = known.find(path);
    return found != known.end() ? found->second : nullptr;
  };
  Merging merging;
  Merged merged;
  const auto add = [&](const NodeTree& node, bool changed_ones) {
    const std::string prefix = ".node-" + std::to_string(node.node) + "/";
    for (const Entry& entry : node.tree->entries) {
      const Entry* own = find(prefix + entry.path);
      const Entry* shared = own == nullptr ? find(entry.path) : nullptr;
      const bool changed = own != nullptr ? !same_content(*own, entry)
                                          : shared == nullptr || !same_content(*shared, entry);
      if (changed != changed_ones || merging.add(entry)) continue;
      if (!changed && own == nullptr) continue;  // An old copy of what another node wrote anew.
      Entry apart = entry;
      apart.path = prefix + entry.path;
      merged.apart.push_back(apart.path);
      // A path that was there by that very name keeps what it has: nothing of a lower node is lost.
      merging.add(apart);
    }
  };
  for (const NodeTree& node : trees) add(node, true);
  for (const NodeTree& node : trees) add(node, false);
  merged.tree = merging.take();
  return merged;
}

}  // namespace trainyard::snapshot
