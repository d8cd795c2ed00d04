#include "api/outputs.h"

#include <algorithm>

#include "store/pending_outputs.h"
#include "store/run_rows.h"

namespace trainyard::api {
namespace {

constexpr int64_t kFilesMax = 100'000;  // Of one run.
// With this many, or as many as the tree has, a new tree is made: all trees of a run together are
// then at most three times its last one.
constexpr int64_t kFoldMin = 1'000;

Result<std::shared_ptr<const snapshot::Tree>> tree_of(House& house, const std::string& id) {
  if (id.empty()) return std::make_shared<const snapshot::Tree>();
  return house.trees.tree(id);
}

// The first entry that is not before `path`.
auto place_of(auto& entries, std::string_view path) {
  return std::lower_bound(
      entries.begin(), entries.end(), path,
      [](const snapshot::Entry& each, std::string_view wanted) { return each.path < wanted; });
}

// Whether the tree has a file where `path` needs a folder, or the reverse.
bool has_conflict_with(const snapshot::Tree& tree, const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const snapshot::Entry* above = find_entry(tree, path.substr(0, slash));
    if (above != nullptr && above->kind != snapshot::EntryKind::folder) return true;
  }
  const auto below = place_of(tree.entries, path + "/");
  return below != tree.entries.end() && below->path.starts_with(path + "/");
}

struct Outputs {
  store::RunHead head;
  std::vector<store::PendingOutput> pending;
};

Status fold(House& house, const RunId& id) {
  Outputs outputs;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(outputs.head, store::run_head(db, id));
    TRY_SET(outputs.pending, store::pending_outputs(db, outputs.head.number));
    return {};
  };
  TRY(house.store.read(look));
  if (outputs.pending.empty()) return {};
  TRY_SET(const auto before, tree_of(house, outputs.head.outputs));
  std::vector<snapshot::Entry> added;
  for (const store::PendingOutput& output : outputs.pending) {
    TRY_SET(const Digest digest, Digest::from_hex(output.digest));
    snapshot::Entry entry;
    entry.path = output.path;
    entry.size = static_cast<uint64_t>(output.size);
    entry.digest = digest;
    added.push_back(std::move(entry));
  }
  snapshot::Tree tree;
  // The newer of two entries with the same path comes first, and is kept.
  std::merge(added.begin(), added.end(), before->entries.begin(), before->entries.end(),
             std::back_inserter(tree.entries),
             [](const auto& a, const auto& b) { return a.path < b.path; });
  const auto same = [](const auto& a, const auto& b) { return a.path == b.path; };
  tree.entries.erase(std::unique(tree.entries.begin(), tree.entries.end(), same),
                     tree.entries.end());
  TRY(snapshot::check(tree));
  const std::string text = snapshot::encode(tree);
  const Digest digest = sha256(text);
  TRY(house.blobs.put(digest, text));
  TRY(house.blobs.sync());
  return house.control->set_outputs(id, digest.hex(), outputs.pending);
}

}  // namespace

Status add_output(House& house, const RunId& id, snapshot::Entry entry) {
  return house.outputs.with([&](auto& counts) -> Status {
    store::RunHead head;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(head, store::run_head(db, id));
      if (counts.contains(id.value)) return {};
      TRY_SET(counts[id.value], store::count_pending_outputs(db, head.number));
      return {};
    };
    TRY(house.store.read(look));
    TRY_SET(const auto tree, tree_of(house, head.outputs));
    int64_t& pending = counts[id.value];
    const auto kept = static_cast<int64_t>(tree->entries.size());
    if (kept + pending >= kFilesMax) {
      return fail(ErrorKind::invalid,
                  "a run's outputs have at most " + std::to_string(kFilesMax) + " files");
    }
    if (has_conflict_with(*tree, entry.path)) {
      return fail(ErrorKind::conflict, "'" + entry.path +
                                           "': the run's outputs have a file where "
                                           "this needs a folder, or a folder where this is a file");
    }
    TRY(house.blobs.sync());
    TRY(house.control->add_output(
        id, {entry.path, entry.digest.hex(), static_cast<int64_t>(entry.size)}));
    if (++pending < std::max(kFoldMin, kept)) return {};
    counts.erase(id.value);
    return fold(house, id);
  });
}

Status fold_outputs(House& house, const RunId& id) {
  bool any = false;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(any, store::has_pending_outputs(db, id));
    return {};
  };
  TRY(house.store.read(look));
  if (!any) return {};  // Mostly; and nobody waits for the lock.
  return house.outputs.with([&](auto& counts) -> Status {
    counts.erase(id.value);
    return fold(house, id);
  });
}

}  // namespace trainyard::api
