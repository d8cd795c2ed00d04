#include "snapshot/folder_cursor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace trainyard::snapshot {

Result<int> FolderCursor::at(std::string_view folder) {
  // Keeps the levels whose path is also on the way to `folder`.
  size_t kept = 0;
  while (kept < levels_.size()) {
    const size_t end = levels_[kept].end;
    const bool shared = folder.substr(0, end) == std::string_view(path_).substr(0, end) &&
                        (folder.size() == end || (folder.size() > end && folder[end] == '/'));
    if (!shared) break;
    ++kept;
  }
  levels_.resize(kept);
  path_ = folder;
  size_t start = levels_.empty() ? 0 : levels_.back().end + 1;
  while (start < folder.size()) {
    const size_t end = std::min(folder.find('/', start), folder.size());
    const int parent = levels_.empty() ? root_ : levels_.back().fd.get();
    auto opened = open_level(parent, path_.substr(start, end - start), folder.substr(0, end));
    if (!opened) return std::unexpected(std::move(opened).error());
    levels_.push_back({end, *std::move(opened)});
    start = end + 1;
  }
  return levels_.empty() ? root_ : levels_.back().fd.get();
}

Result<Fd> FolderCursor::open_level(int parent, const std::string& part, std::string_view folder) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  constexpr mode_t kMode = 0755;
  Fd fd(openat(parent, part.c_str(), kFlags));
  if (!fd && errno == ENOENT && missing_ == Missing::make) {
    const bool made = mkdirat(parent, part.c_str(), kMode) == 0;
    if (!made && errno != EEXIST) {
      return fail_errno(errno, "make folder " + (name_ / folder).string());
    }
    fd = Fd(openat(parent, part.c_str(), kFlags));
    // The umask is ours, not the tree's.
    if (fd && made) fchmod(fd.get(), kMode);
  }
  if (fd) return fd;
  const int number = errno;
  if (number == ELOOP || number == ENOTDIR) {
    return fail(ErrorKind::conflict,
                "open " + (name_ / folder).string() + ": a file or symlink, not a folder");
  }
  return fail_errno(number, "open " + (name_ / folder).string());
}

std::string_view parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

Result<Fd> open_root(const fs::path& folder) {
  TRY(make_dirs(folder));
  return open_file(folder, O_RDONLY | O_DIRECTORY);
}

}  // namespace trainyard::snapshot
