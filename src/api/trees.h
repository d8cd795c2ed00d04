#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/guarded.h"
#include "blob/blob_store.h"
#include "control/control.h"
#include "snapshot/tree.h"

namespace trainyard::api {

// Trees of code and outputs by their id, read from the blobs; the last few stay in memory, for a
// client that fetches a tree's files one by one. Thread-safe.
class Trees {
 public:
  explicit Trees(blob::Store& blobs) : blobs_(blobs) {}

  // not_found when the tree is not here, invalid when the blob of that name is none.
  Result<std::shared_ptr<const snapshot::Tree>> tree(std::string_view id);
  Result<std::string> text(std::string_view id);

  // The outputs of several nodes as one tree, which is kept; the warning names what differed.
  Result<control::MergedOutputs> merge(const control::OutputsToMerge& outputs);

  // Is all of it here? not_found names the first blob that is not.
  Result<control::SnapshotSize> check_whole(std::string_view id);

 private:
  struct Kept {
    std::string id;
    // Shared: read by others while it makes room.
    std::shared_ptr<const snapshot::Tree> tree;
  };

  blob::Store& blobs_;
  Guarded<std::list<Kept>> kept_;
};

// The entry of this path, or null.
const snapshot::Entry* find_entry(const snapshot::Tree& tree, std::string_view path);

}  // namespace trainyard::api
