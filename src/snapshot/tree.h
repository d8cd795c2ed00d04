#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace trainyard::snapshot {

enum class EntryKind { file, executable, symlink, folder };  // folder: an empty one only.

struct Entry {
  EntryKind kind = EntryKind::file;
  std::string path;    // Relative, '/' between parts, any bytes but NUL.
  uint64_t size = 0;   // Of a file.
  Digest digest;       // Of a file's bytes.
  std::string target;  // Of a symlink, as it was written; never followed.
  bool operator==(const Entry&) const = default;
};

// A folder as a list: the snapshot of a run's code, or its outputs. Its text is itself a blob, and
// the SHA-256 of that text is the snapshot's id: same folder, same id.
struct Tree {
  std::vector<Entry> entries;  // By path, bytewise, no path twice.

  uint64_t bytes() const;
  size_t files() const;
  bool operator==(const Tree&) const = default;
};

// One line an entry, after a first line that names the format and its version.
std::string encode(const Tree& tree);
// Refuses what encode() would not have written: order, duplicates, "..", a bad digest; with the
// line.
Result<Tree> decode(std::string_view text);
// The same for a tree in memory; names the line it would be on. Also refuses an entry below one
// that is no folder: writing it would go through a symlink.
Status check(const Tree& tree);

}  // namespace trainyard::snapshot
