#pragma once

#include <sys/stat.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/hash.h"

namespace trainyard::snapshot {

// What tells that a file was not touched. Without its path: the same inode with the same times
// holds the same bytes wherever it was moved to.
struct FileStamp {
  uint64_t inode = 0;
  uint64_t device = 0;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;

  static FileStamp of(const struct stat& status);
  auto operator<=>(const FileStamp&) const = default;
};

// The time the kernel stamps files with. A file changed after this call bears this time or a later
// one.
int64_t stamp_now_ns();

// True when a file that was read from `read_at_ns` on may be changed without its stamp showing it:
// it was touched in the same tick of the clock. Such a file is not remembered, and so read again.
bool is_racy(const FileStamp& stamp, int64_t read_at_ns);

// The digests of the files of one folder, as they were captured last.
class StatCache {
 public:
  struct Record {
    FileStamp stamp;
    Digest digest;
    bool operator==(const Record&) const = default;
  };

  // The file in `folder` (empty: none) that remembers the code at `captured`. One that is missing,
  // damaged or of another version counts as empty. Any number of processes may share it: it is
  // replaced as a whole.
  static StatCache load(const fs::path& folder, const fs::path& captured);

  std::optional<Digest> find(const FileStamp& stamp) const;
  // Writes `records`, unless they are what was loaded.
  Status save(std::vector<Record> records) const;

 private:
  fs::path path_;
  std::vector<Record> records_;  // By stamp.
};

}  // namespace trainyard::snapshot
