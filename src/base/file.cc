#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace trainyard {
namespace {

// A folder this far down is moved to the top before its turn, so that a tree of any depth takes a
// bounded number of open files.
constexpr int kRemoveDepthMax = 64;

struct Removal {
  int top = -1;  // The root of the tree.
  int moved = 0;
};

Status remove_at(Removal& removal, int parent, const char* name, const fs::path& path, int depth);

Status remove_children(Removal& removal, Fd folder, const fs::path& path, int depth) {
  // A folder the user made read-only must go too.
  fchmod(folder.get(), 0700);
  DIR* raw = fdopendir(folder.get());
  if (raw == nullptr) return fail_errno(errno, "open " + path.string());
  const int fd = folder.release();
  if (depth == 0) removal.top = fd;
  Status status;
  while (const dirent* entry = readdir(raw)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    status = remove_at(removal, fd, entry->d_name, path / name, depth + 1);
    if (!status) break;
  }
  closedir(raw);
  return status;
}

bool move_up(Removal& removal, int parent, const char* name) {
  const std::string there = ".trainyard-removing-" + std::to_string(removal.moved);
  if (renameat(parent, name, removal.top, there.c_str()) != 0) return false;
  ++removal.moved;
  return true;
}

Status remove_at(Removal& removal, int parent, const char* name, const fs::path& path, int depth) {
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return fail_errno(errno, "remove " + path.string());
  if (depth > kRemoveDepthMax && move_up(removal, parent, name)) return {};
  for (;;) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) {
      fchmodat(parent, name, 0700, 0);
      fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) return fail_errno(errno, "remove " + path.string());
    const int moved = removal.moved;
    TRY(remove_children(removal, Fd(fd), path, depth));
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
    // The top has got new entries while it was read.
    if (errno != ENOTEMPTY || removal.moved == moved) {
      return fail_errno(errno, "remove " + path.string());
    }
  }
}

// O_NONBLOCK: the open of a FIFO that nobody writes to would wait for ever.
constexpr int kReadOnly = O_RDONLY | O_NONBLOCK | O_NOCTTY;

Status check_regular(const Fd& fd, const fs::path& path) {
  struct stat found{};
  if (::fstat(fd.get(), &found) != 0) return fail_errno(errno, "look at " + path.string());
  if (S_ISREG(found.st_mode)) return {};
  return fail(ErrorKind::invalid, path.string() + " is not a plain file");
}

std::unexpected<Error> leads_out(const fs::path& path) {
  return fail(ErrorKind::denied, path.string() + " leads out of its folder",
              "Links must stay within the folder.");
}

// Component by component. Stricter than openat2: no link is followed at all.
Result<Fd> open_without_links(int folder, const fs::path& path, int flags) {
  Fd parent;
  for (const fs::path& part : path.lexically_normal()) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part == "/") return leads_out(path);
    const int at = parent ? parent.get() : folder;
    const int fd = ::openat(at, part.c_str(), kReadOnly | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
      return errno == ELOOP ? leads_out(path) : fail_errno(errno, "open " + path.string());
    parent = Fd(fd);
  }
  if (!parent) parent = Fd(::openat(folder, ".", kReadOnly | O_CLOEXEC));
  if ((flags & O_DIRECTORY) == 0) TRY(check_regular(parent, path));
  return parent;
}

}  // namespace

Result<Fd> open_file(const fs::path& path, int flags, unsigned mode) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) return Fd(fd);
    if (errno != EINTR) return fail_errno(errno, "open " + path.string());
  }
}

Result<Fd> open_regular(const fs::path& path) {
  TRY_SET(Fd fd, open_file(path, kReadOnly));
  TRY(check_regular(fd, path));
  return fd;
}

Result<Fd> open_beneath(int folder, const fs::path& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(kReadOnly | O_CLOEXEC | flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string plain = path.lexically_normal();
  long got = -1;
  do {
    got = ::syscall(SYS_openat2, folder, plain.empty() ? "." : plain.c_str(), &how, sizeof how);
  } while (got < 0 && (errno == EINTR || errno == EAGAIN));
  // Kernels before 5.6, and sandboxes that do not know the call.
  if (got < 0 && (errno == ENOSYS || errno == EPERM))
    return open_without_links(folder, path, flags);
  if (got < 0 && (errno == EXDEV || errno == ELOOP)) return leads_out(path);
  if (got < 0) return fail_errno(errno, "open " + path.string());
  Fd fd(static_cast<int>(got));
  if ((flags & O_DIRECTORY) == 0) TRY(check_regular(fd, path));
  return fd;
}

Result<std::string> read_file(const fs::path& path) {
  TRY_SET(const Fd fd, open_file(path, O_RDONLY));
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read " + path.string());
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

Status write_file(const fs::path& path, std::string_view bytes, unsigned mode, Durable durable) {
  std::string temporary = path.string() + ".XXXXXX";
  Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return fail_errno(errno, "write " + path.string());
  const auto give_up = [&](Error error) {
    unlink(temporary.c_str());
    return std::unexpected(std::move(error));
  };
  if (Status written = write_all(fd.get(), bytes, "write " + path.string()); !written) {
    return give_up(written.error());
  }
  fchmod(fd.get(), mode);
  if (durable == Durable::yes && fsync(fd.get()) != 0) {
    return give_up(errno_error(errno, "write " + path.string()));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return give_up(errno_error(errno, "write " + path.string()));
  }
  // Without syncing the folder too, the rename may be lost with the power.
  if (durable == Durable::yes) TRY(sync_dir(path.parent_path()));
  return {};
}

Status write_all(int fd, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(errno, what);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return {};
}

Status write_all_at(int fd, std::string_view bytes, uint64_t offset, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(errno, what);
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return {};
}

Result<std::string> read_at(int fd, uint64_t offset, size_t size, std::string_view what) {
  std::string bytes(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got =
        ::pread(fd, bytes.data() + filled, size - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, what);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

Result<uint64_t> file_size(int fd, std::string_view what) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return fail_errno(errno, what);
  return static_cast<uint64_t>(status.st_size);
}

Status make_dirs(const fs::path& path, unsigned mode) {
  if (mkdir(path.c_str(), mode) == 0) return {};
  if (errno == EEXIST) {
    struct stat status{};
    if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
    return fail(ErrorKind::conflict, "make folder " + path.string() + ": a file is in its place");
  }
  if (errno != ENOENT || !path.has_parent_path() || path.parent_path() == path) {
    return fail_errno(errno, "make folder " + path.string());
  }
  TRY(make_dirs(path.parent_path(), mode));
  if (mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
  return fail_errno(errno, "make folder " + path.string());
}

Status remove_tree(const fs::path& path) {
  Removal removal;
  return remove_at(removal, AT_FDCWD, path.c_str(), path, 0);
}

Status sync_dir(const fs::path& path) {
  TRY_SET(const Fd fd, open_file(path.empty() ? fs::path(".") : path, O_RDONLY | O_DIRECTORY));
  if (fsync(fd.get()) != 0) return fail_errno(errno, "sync " + path.string());
  return {};
}

TempDir::TempDir() {
  const char* root = std::getenv("TMPDIR");
  std::string name = std::string(root != nullptr ? root : "/tmp") + "/trainyard.XXXXXX";
  if (mkdtemp(name.data()) == nullptr) name.clear();
  path_ = name;
}

TempDir::~TempDir() {
  // What cannot be removed is left to the system's own cleaning of its temporary folder.
  if (!path_.empty()) static_cast<void>(remove_tree(path_).has_value());
}

Status check_relative_path(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorKind::invalid, "path '" + std::string(path) + "': " + std::string(why));
  };
  if (path.empty()) return refuse("is empty");
  if (path.front() == '/') return refuse("must be relative");
  if (path.find('\0') != std::string_view::npos) return refuse("holds a NUL byte");
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == "..") {
      return refuse("'" + std::string(part) + "' is not allowed in it");
    }
    start = end + 1;
  }
  return {};
}

}  // namespace trainyard
