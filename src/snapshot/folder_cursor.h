#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trainyard::snapshot {

// Opens folders below a root one part of the path at a time, so that no symlink is ever followed,
// not even one put there a moment ago, and so that depth is not limited by PATH_MAX. Folders shared
// with the path asked for before stay open: walking in order costs one open a folder. One thread's.
class FolderCursor {
 public:
  enum class Missing { refuse, make };

  // `root` stays the caller's; `name` is for errors.
  FolderCursor(int root, fs::path name, Missing missing = Missing::refuse)
      : root_(root), name_(std::move(name)), missing_(missing) {}

  // A descriptor of "a/b" ("": the root), good until the next call. A symlink or file on the way is
  // `conflict`.
  Result<int> at(std::string_view folder);

 private:
  struct Level {
    size_t end = 0;  // In path_, without the slash.
    Fd fd;
  };
  Result<Fd> open_level(int parent, const std::string& part, std::string_view folder);

  const int root_;
  const fs::path name_;
  const Missing missing_;
  std::string path_;
  std::vector<Level> levels_;
};

// "a/b/c" -> "a/b" and "c"; "c" -> "" and "c".
std::string_view parent_of(std::string_view path);
std::string_view name_of(std::string_view path);

// Opens a folder as a root, made if need be; a root may be reached through symlinks, it is the
// user's.
Result<Fd> open_root(const fs::path& folder);

}  // namespace trainyard::snapshot
