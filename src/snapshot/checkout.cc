#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "snapshot/capture.h"
#include "snapshot/folder_cursor.h"
#include "snapshot/parallel.h"

namespace trainyard::snapshot {
namespace {

constexpr size_t kCheckoutStretch = 16;   // Entries a thread takes at a time.
constexpr size_t kCopyBytes = 64 * 1024;  // Larger files are copied by the kernel.

// Writes entries below a root. One thread's.
class Maker {
 public:
  Maker(int root, const fs::path& name, const OpenBlob& open)
      : name_(name), open_(open), cursor_(root, name) {}

  Status make(const Entry& entry);

 private:
  Status make_file(int folder, const Entry& entry);
  Status fill(int to, const Entry& entry);
  Status copy_by_hand(int from, int to, uint64_t at, const Entry& entry);
  std::string doing(const Entry& entry) const { return "make " + (name_ / entry.path).string(); }

  const fs::path& name_;
  const OpenBlob& open_;
  FolderCursor cursor_;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kCopyBytes);
};

Status Maker::make(const Entry& entry) {
  if (entry.kind == EntryKind::folder) return {};
  TRY_SET(const int folder, cursor_.at(parent_of(entry.path)));
  if (entry.kind != EntryKind::symlink) return make_file(folder, entry);
  const std::string name(name_of(entry.path));
  if (symlinkat(entry.target.c_str(), folder, name.c_str()) != 0) {
    return fail_errno(errno, doing(entry));
  }
  return {};
}

Status Maker::make_file(int folder, const Entry& entry) {
  const std::string name(name_of(entry.path));
  const mode_t mode = entry.kind == EntryKind::executable ? 0755 : 0644;
  const Fd to(
      openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!to) return fail_errno(errno, doing(entry));
  Status filled = fill(to.get(), entry);
  if (filled) {
    // The umask is ours, not the tree's; asking first is cheaper than setting what is right.
    struct stat status{};
    if (fstat(to.get(), &status) != 0 ||
        ((status.st_mode & 0777) != mode && fchmod(to.get(), mode) != 0)) {
      filled = fail_errno(errno, doing(entry));
    }
  }
  if (!filled) unlinkat(folder, name.c_str(), 0);
  return filled;
}

Status Maker::fill(int to, const Entry& entry) {
  TRY_SET(const Fd from, open_(entry));
  TRY_SET(const uint64_t size, file_size(from.get(), doing(entry)));
  if (size != entry.size) {
    return fail(ErrorKind::internal, "blob " + entry.digest.hex() + " has " + std::to_string(size) +
                                         " bytes instead of " + std::to_string(entry.size));
  }
  uint64_t done = 0;
  // Small files are faster through a buffer than through copy_file_range(2).
  while (size > kCopyBytes && done < size) {
    auto in_at = static_cast<off64_t>(done);
    auto out_at = in_at;
    const ssize_t got = copy_file_range(from.get(), &in_at, to, &out_at, size - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
      return fail_errno(errno, doing(entry));
    }
    // Another file system, an old kernel, a filter: the slow way may still work.
    if (got <= 0) break;
    done += static_cast<uint64_t>(got);
  }
  return copy_by_hand(from.get(), to, done, entry);
}

Status Maker::copy_by_hand(int from, int to, uint64_t at, const Entry& entry) {
  while (at < entry.size) {
    const ssize_t got = pread(from, buffer_.get(), kCopyBytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read blob " + entry.digest.hex());
    if (got == 0) return fail(ErrorKind::internal, "blob " + entry.digest.hex() + " is cut off");
    const auto size = static_cast<size_t>(got);
    TRY(write_all_at(to, {buffer_.get(), size}, at, doing(entry)));
    at += size;
  }
  return {};
}

// All folders, before the threads start: so none is made twice or waited for.
Status make_folders(const Tree& tree, int root, const fs::path& name) {
  FolderCursor cursor(root, name, FolderCursor::Missing::make);
  std::string_view last;
  for (const Entry& entry : tree.entries) {
    const bool folder = entry.kind == EntryKind::folder;
    const std::string_view path = folder ? std::string_view(entry.path) : parent_of(entry.path);
    if (path != last) {
      if (auto made = cursor.at(path); !made) return std::unexpected(std::move(made).error());
    }
    last = path;
  }
  return {};
}

}  // namespace

Status checkout(const Tree& tree, const fs::path& folder, const OpenBlob& open, int threads) {
  TRY(check(tree));
  TRY_SET(const Fd root, open_root(folder));
  TRY(make_folders(tree, root.get(), folder));
  return in_parallel(tree.entries.size(), threads, kCheckoutStretch,
                     [&](size_t begin, size_t end) -> Status {
                       Maker maker(root.get(), folder, open);
                       for (size_t i = begin; i < end; ++i) TRY(maker.make(tree.entries[i]));
                       return {};
                     });
}

}  // namespace trainyard::snapshot
