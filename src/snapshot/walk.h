#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "snapshot/stat_cache.h"
#include "snapshot/tree.h"

namespace trainyard::snapshot {

// Something in a folder, by stat(2) alone.
struct Found {
  EntryKind kind = EntryKind::file;
  std::string path;
  std::string target;  // Of a symlink.
  FileStamp stamp;     // Of a file.
};

struct WalkOptions {
  bool code = true;                                     // As in CaptureOptions.
  std::vector<std::pair<uint64_t, uint64_t>> excluded;  // Device and inode.
  int threads = 2;
  size_t ignored_max = 0;                        // How many of Walked::ignored are kept.
  std::function<void(uint64_t files)> progress;  // One call at a time, any thread; may be empty.
};

struct Walked {
  std::vector<Found> found;  // By path.
  std::vector<std::string> warnings;
  std::vector<std::string> ignored;  // By path; a folder ends with '/'.
  std::string ignore_file;           // Where to name what should stay out; empty: nowhere.
};

// What to do about a file or folder that cannot be read.
std::string hint_unreadable(const std::string& ignore_file);

// Lists what a capture of `root` takes, `name` being its path for errors. What is ignored by its
// name is neither opened nor asked for its status.
Result<Walked> walk(int root, const fs::path& name, const WalkOptions& options);

}  // namespace trainyard::snapshot
