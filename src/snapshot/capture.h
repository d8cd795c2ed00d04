#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "snapshot/tree.h"

namespace trainyard::snapshot {

struct CaptureOptions {
  // Code: .amlignore, else .gitignore, is honoured, and .git, outputs/ and logs/ at the top stay
  // out. Outputs: everything is taken.
  bool code = true;
  std::vector<fs::path> excluded;  // Absolute: the home, if it lies inside.
  fs::path cache;                  // A folder for the stat cache; empty: none.
  int threads = 2;
  std::function<void(uint64_t files, uint64_t bytes)> progress;  // While hashing; may be empty.
  std::function<void(uint64_t files)> listing;  // Before that, while listing; may be empty.
  size_t ignored_max = 0;                       // How many of Captured::ignored are kept.
};

struct Captured {
  Tree tree;
  std::string text;  // encode(tree)
  Digest id;         // sha256(text)
  uint64_t files_hashed = 0;
  uint64_t bytes_hashed = 0;
  std::vector<std::string> warnings;  // "x.sock: a socket, left out"
  std::vector<std::string> ignored;   // By path; a folder ends with '/'.
  std::string ignore_file;            // Where to name what should stay out; empty: nowhere.
  // Run configurations without the passwords that the files have, by path: the tree names these
  // bytes, and they are what is sent.
  std::map<std::string, std::string> replaced;
};

// Reads the folder. Unchanged files (size, mtime, ctime, inode as in the cache) cost a stat;
// ignored folders are never walked. A file that changes while it is read is read again; one that
// never holds still is `conflict` with its name. An unreadable file or folder is an error with its
// path.
Result<Captured> capture(const fs::path& folder, const CaptureOptions& options);

// Makes the tree in `folder` (made if need be; entries must not be there yet). `open` finds a blob.
// A folder entry or parent is never followed through a symlink.
using OpenBlob = std::function<Result<Fd>(const Entry&)>;
Status checkout(const Tree& tree, const fs::path& folder, const OpenBlob& open, int threads = 2);

}  // namespace trainyard::snapshot
