#include "base/private_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace trainyard {
namespace {

constexpr int kDepthMax = 100;
constexpr int64_t kFilesMax = 1'000'000;
constexpr size_t kPieceSize = 1 << 20;

struct Copying {
  uid_t owner = 0;
  PrivateCopy done;
};

Status copy_file(int from, const std::string& name, const fs::path& to, Copying& copying) {
  // Without O_NONBLOCK, a FIFO that came in between would be waited for.
  const Fd source(openat(from, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!source || fstat(source.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_nlink != 1 || status.st_uid != copying.owner) {
    ++copying.done.left_out;
    return {};
  }
  if (++copying.done.files > kFilesMax) {
    return fail(ErrorKind::invalid, "there are more than 1,000,000 files");
  }
  TRY_SET(const Fd target, open_file(to, O_WRONLY | O_CREAT | O_EXCL, 0600));
  for (uint64_t at = 0;;) {
    TRY_SET(const std::string piece, read_at(source.get(), at, kPieceSize, name));
    if (piece.empty()) return {};
    TRY(write_all(target.get(), piece, to.string()));
    at += piece.size();
  }
}

Status copy_folder(Fd from, const fs::path& to, int depth, Copying& copying) {
  if (depth > kDepthMax) return fail(ErrorKind::invalid, "it is more than 100 folders deep");
  if (mkdir(to.c_str(), 0700) != 0) return fail_errno(errno, "make " + to.string());
  const int fd = from.get();
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(fdopendir(dup(fd)), closedir);
  if (!folder) return fail_errno(errno, "read " + to.string());
  while (const dirent* entry = readdir(folder.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    const bool seen = fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (seen && S_ISDIR(status.st_mode)) {
      Fd below(openat(fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      if (below) {
        TRY(copy_folder(std::move(below), to / name, depth + 1, copying));
        continue;
      }
    }
    TRY(copy_file(fd, name, to / name, copying));
  }
  return {};
}

}  // namespace

Result<PrivateCopy> copy_private(const fs::path& from, const fs::path& to) {
  TRY_SET(Fd folder, open_file(from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat status{};
  if (fstat(folder.get(), &status) != 0) return fail_errno(errno, "read " + from.string());
  Copying copying{.owner = status.st_uid, .done = {}};
  TRY_WITHIN("copy " + from.string(), copy_folder(std::move(folder), to, 0, copying));
  return copying.done;
}

}  // namespace trainyard
