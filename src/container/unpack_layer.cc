#include "container/unpack_layer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/command.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "container/bubblewrap_view.h"

namespace trainyard::container {
namespace {

constexpr std::string_view kHidden = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::string_view kAufs = ".wh..wh.";  // Notes of an old kind of layers.
constexpr uint64_t kPulseEvery = 64;            // Entries.
constexpr uint64_t kUnpackedMax = uint64_t{1} << 40;

// The path in the root, without "./" and the like: "usr/bin". ".." would leave it.
Result<std::string> plain_path(const std::string& path) {
  std::string plain;
  for (const std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.find('\0') != std::string::npos) {
      return fail(ErrorKind::invalid, "an image has a path that leads out of it: " + path);
    }
    plain += (plain.empty() ? "" : "/") + part;
  }
  return plain;
}

bool is_real_folder(const std::string& path) {
  struct stat found{};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

// Makes room for another entry.
Status remove_there(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return remove_tree(path);
}

void set_time(const std::string& path, int64_t mtime_s) {
  const timespec times[2] = {{0, UTIME_OMIT}, {mtime_s, 0}};
  utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
}

}  // namespace

Status LayerWriter::apply(TarReader& tar) {
  written_.clear();
  TarEntry entry;
  for (uint64_t count = 0;; ++count) {
    if (count % kPulseEvery == 0) TRY(pulse_());
    TRY_SET(const bool more, tar.next(entry));
    if (!more) return {};
    TRY_WITHIN(entry.path, write_entry(entry, tar));
  }
}

Status LayerWriter::write_entry(const TarEntry& entry, TarReader& tar) {
  TRY_SET(const std::string inside, plain_path(entry.path));
  if (inside.empty() || entry.type == TarEntry::Type::device) return {};
  const size_t slash = inside.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : inside.substr(0, slash);
  const std::string name = slash == std::string::npos ? inside : inside.substr(slash + 1);
  TRY_SET(const std::string parent, place_of_parent(folder));
  if (name == kOpaque) return remove_opaque(parent);
  if (name.starts_with(kAufs)) return {};
  if (name.starts_with(kHidden)) return remove_hidden(parent, name.substr(kHidden.size()));

  const std::string path = parent + "/" + name;
  remember(path);
  if (entry.type == TarEntry::Type::folder) {
    last_folder_.clear();  // A link may have stood there.
    if (!is_real_folder(path)) {
      TRY(remove_there(path));
      if (mkdir(path.c_str(), 0700) != 0) return fail_errno(errno, "make it");
    }
    // Ours to change until the image is whole; 0700 whatever is said, or it could not be removed.
    if (chmod(path.c_str(), (entry.mode & 01777) | 0700) != 0) return fail_errno(errno, "chmod");
    return {};
  }
  ++files_;
  TRY(remove_there(path));
  switch (entry.type) {
    case TarEntry::Type::file:
      return write_file_at(entry, path, tar);
    case TarEntry::Type::symlink:
      last_folder_.clear();
      if (symlink(entry.link.c_str(), path.c_str()) != 0) return fail_errno(errno, "link it");
      set_time(path, entry.mtime_s);
      return {};
    case TarEntry::Type::hardlink:
      return write_hardlink(entry, path);
    case TarEntry::Type::fifo:
      if (mkfifo(path.c_str(), entry.mode & 0777) != 0) return fail_errno(errno, "make it");
      return {};
    case TarEntry::Type::folder:
    case TarEntry::Type::device:
      return {};
  }
  return {};
}

Status LayerWriter::write_file_at(const TarEntry& entry, const std::string& path, TarReader& tar) {
  TRY_SET(const Fd fd, open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  for (;;) {
    TRY_SET(const std::string_view piece, tar.piece());
    if (piece.empty()) break;
    TRY(write_all(fd.get(), piece, path));
    bytes_ += piece.size();
    if (bytes_ > kUnpackedMax) {
      return fail(ErrorKind::invalid, "the image is larger than " + format_size(kUnpackedMax));
    }
  }
  if (fchmod(fd.get(), (entry.mode & 0777) | 0600) != 0) return fail_errno(errno, "chmod");
  // Python believes in what it compiled only when the times agree.
  const timespec times[2] = {{0, UTIME_OMIT}, {entry.mtime_s, 0}};
  futimens(fd.get(), times);
  return {};
}

Status LayerWriter::write_hardlink(const TarEntry& entry, const std::string& path) {
  TRY_SET(const std::string inside, plain_path(entry.link));
  const size_t slash = inside.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : inside.substr(0, slash);
  TRY_SET(const Place parent, View(root_, {}).find("/" + folder));
  const std::string from =
      parent.outside + "/" + (slash == std::string::npos ? inside : inside.substr(slash + 1));
  if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), 0) != 0) {
    return fail_errno(errno, "link it to " + entry.link);
  }
  return {};
}

// Of the layers below alone.
Status LayerWriter::remove_hidden(const std::string& parent, std::string_view hidden) {
  const std::string path = parent + "/" + std::string(hidden);
  if (hidden.empty() || hidden == "." || hidden == ".." || written_.contains(path)) return {};
  last_folder_.clear();
  return remove_there(path);
}

Status LayerWriter::remove_opaque(const std::string& parent) {
  std::vector<std::string> gone;
  std::error_code error;
  for (auto it = fs::directory_iterator(parent, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (!written_.contains(it->path().string())) gone.push_back(it->path());
  }
  if (error) return fail_errno(error.value(), "read it");
  last_folder_.clear();
  for (const std::string& path : gone) TRY(remove_there(path));
  return {};
}

// Links on the way are followed as they mean inside. What is missing is made.
Result<std::string> LayerWriter::place_of_parent(const std::string& folder) {
  if (folder.empty()) return root_.string();
  if (folder == last_folder_) return last_place_;
  TRY_SET(const Place place, View(root_, {}).find("/" + folder));
  if (!place.folder) {
    // A file of a layer below in the place of a folder gives way to it.
    std::string deepest = place.outside;
    struct stat found{};
    while (lstat(deepest.c_str(), &found) != 0) deepest.resize(deepest.rfind('/'));
    if (!S_ISDIR(found.st_mode)) TRY(remove_there(deepest));
    TRY(make_dirs(place.outside));
  }
  remember(place.outside);
  last_folder_ = folder;
  last_place_ = place.outside;
  return place.outside;
}

// With all folders above: an opaque mark that comes late must not take them away.
void LayerWriter::remember(std::string_view path) {
  while (path.size() > root_.native().size() && !written_.contains(path)) {
    written_.emplace(path);
    path = path.substr(0, path.rfind('/'));
  }
}

Status apply_layer_file(LayerWriter& writer, Fd fd, const fs::path& file) {
  TRY_SET(const std::string magic, read_at(fd.get(), 0, 4, file.string()));
  std::string unpacker;
  if (magic.starts_with("\x1f\x8b")) unpacker = "gzip";
  if (magic == "\x28\xb5\x2f\xfd") unpacker = "zstd";
  pid_t pid = 0;
  if (!unpacker.empty()) {
    const fs::path program = find_program(unpacker);
    if (program.empty()) {
      return fail(ErrorKind::unavailable,
                  "the image is compressed with " + unpacker + ", and there is no such program",
                  "Install the package " + unpacker + ".");
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
    Fd reading(ends[0]);
    const Fd writing(ends[1]);
    TRY_SET(pid, spawn_unwatched({.command = {program, "-dc"},
                                  .environment = {},
                                  .folder = {},
                                  .stdin_fd = fd.get(),
                                  .stdout_fd = writing.get(),
                                  .kept_fds = {}}));
    fd = std::move(reading);
  }
  TarReader tar([&](char* bytes, size_t size) -> Result<size_t> {
    for (;;) {
      const ssize_t got = read(fd.get(), bytes, size);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return fail_errno(errno, "read " + file.string());
    }
  });
  const Status applied = writer.apply(tar);
  fd.reset();  // Who still unpacks ends of it.
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  TRY(applied);
  if (status != 0) return fail(ErrorKind::invalid, file.string() + " is damaged");
  return {};
}

}  // namespace trainyard::container
