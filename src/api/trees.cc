#include "api/trees.h"

#include <algorithm>

#include "snapshot/merge.h"

namespace trainyard::api {
namespace {

constexpr size_t kTreesMax = 4;
constexpr size_t kEntriesMax = 20'000;            // Of a tree that stays in memory; some 3 MB.
constexpr uint64_t kTextBytesMax = 512ULL << 20;  // Some four million files.

}  // namespace

Result<std::string> Trees::text(std::string_view id) {
  TRY_SET(const Digest digest, Digest::from_hex(id));
  Result<Fd> fd = blobs_.open(digest);
  if (!fd) {
    if (fd.error().kind != ErrorKind::not_found) return std::unexpected(std::move(fd).error());
    return fail(ErrorKind::not_found, "snapshot " + std::string(id) + " is not here");
  }
  TRY_SET(const uint64_t size, file_size(fd->get(), "a tree"));
  if (size > kTextBytesMax) return fail(ErrorKind::invalid, "a tree of more than 512 MB");
  return read_at(fd->get(), 0, size, "a tree");
}

Result<std::shared_ptr<const snapshot::Tree>> Trees::tree(std::string_view id) {
  using Shared = std::shared_ptr<const snapshot::Tree>;
  Shared found = kept_.with([&](std::list<Kept>& kept) -> Shared {
    for (auto at = kept.begin(); at != kept.end(); ++at) {
      if (at->id != id) continue;
      kept.splice(kept.begin(), kept, at);
      return at->tree;
    }
    return nullptr;
  });
  if (found) return found;
  TRY_SET(const std::string bytes, text(id));
  Result<snapshot::Tree> decoded = snapshot::decode(bytes);
  if (!decoded) {
    return std::unexpected(std::move(decoded).error().within("snapshot " + std::string(id)));
  }
  auto tree = std::make_shared<const snapshot::Tree>(*std::move(decoded));
  if (tree->entries.size() > kEntriesMax) return tree;
  kept_.with([&](std::list<Kept>& kept) {
    kept.push_front({std::string(id), tree});
    if (kept.size() > kTreesMax) kept.pop_back();
  });
  return tree;
}

Result<control::MergedOutputs> Trees::merge(const control::OutputsToMerge& outputs) {
  snapshot::Tree before;
  if (!outputs.before.empty()) {
    TRY_SET(const auto found, tree(outputs.before));
    before = *found;
  }
  std::vector<std::shared_ptr<const snapshot::Tree>> kept;
  std::vector<snapshot::NodeTree> trees;
  for (const control::NodeOutputs& node : outputs.nodes) {
    TRY_SET(auto whole, tree(node.tree));
    trees.push_back({node.node, whole.get()});
    kept.push_back(std::move(whole));
  }
  const snapshot::Merged merged = snapshot::merge(trees, before);
  const std::string text = snapshot::encode(merged.tree);
  const Digest digest = sha256(text);
  TRY(blobs_.put(digest, text));
  TRY(blobs_.sync());
  control::MergedOutputs made{digest.hex(), {}};
  if (!merged.apart.empty()) {
    made.warning = std::to_string(merged.apart.size()) +
                   (merged.apart.size() == 1 ? " output differs" : " outputs differ") +
                   " between nodes: the lowest node's is in its place, the rest below "
                   "outputs/.node-N/, the first as " +
                   merged.apart.front();
  }
  return made;
}

Result<control::SnapshotSize> Trees::check_whole(std::string_view id) {
  // A tree in memory may have been collected since; has() also keeps it from that.
  TRY_SET(const Digest digest, Digest::from_hex(id));
  if (!blobs_.has(digest)) {
    return fail(ErrorKind::not_found, "snapshot " + std::string(id) + " is not here");
  }
  TRY_SET(const auto whole, tree(id));
  for (const snapshot::Entry& entry : whole->entries) {
    using snapshot::EntryKind;
    if (entry.kind != EntryKind::file && entry.kind != EntryKind::executable) continue;
    if (blobs_.has(entry.digest)) continue;
    return fail(ErrorKind::not_found,
                "snapshot " + std::string(id) + ": the bytes of " + entry.path + " are not here");
  }
  // What another client has sent and not yet synced is here, but would not outlive the power.
  TRY(blobs_.sync());
  return control::SnapshotSize{static_cast<int64_t>(whole->files()),
                               static_cast<int64_t>(whole->bytes())};
}

const snapshot::Entry* find_entry(const snapshot::Tree& tree, std::string_view path) {
  const auto at = std::ranges::lower_bound(
      tree.entries, path, std::ranges::less{},
      [](const snapshot::Entry& entry) -> std::string_view { return entry.path; });
  return at != tree.entries.end() && at->path == path ? &*at : nullptr;
}

}  // namespace trainyard::api
