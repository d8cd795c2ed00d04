#include "base/home.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/text.h"

namespace trainyard {
namespace {

constexpr unsigned kMode = 0700;
constexpr unsigned kFileMode = 0600;

struct NetworkFileSystem {
  uint64_t magic;
  std::string_view name;
};

// <linux/magic.h> lacks most of those that never were in the kernel; their numbers are from their
// own sources and from coreutils' stat.
constexpr NetworkFileSystem kNetworkFileSystems[] = {
    {NFS_SUPER_MAGIC, "NFS"},
    {SMB_SUPER_MAGIC, "SMB"},
    {CIFS_SUPER_MAGIC, "CIFS"},
    {SMB2_SUPER_MAGIC, "SMB2"},
    {AFS_SUPER_MAGIC, "AFS"},
    {AFS_FS_MAGIC, "AFS"},
    {CODA_SUPER_MAGIC, "Coda"},
    {NCP_SUPER_MAGIC, "NCP"},
    {V9FS_MAGIC, "9p"},
    {CEPH_SUPER_MAGIC, "CephFS"},
    {OCFS2_SUPER_MAGIC, "OCFS2"},
    {FUSE_SUPER_MAGIC, "FUSE"},
    {0x0BD00BD0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"},
    {0x01161970, "GFS2"},
    {0x7C7C6673, "PRLFS"},
    {0x786F4256, "VirtualBox shared folder"},
    {0xBACBACBC, "VMware shared folder"},
    {0xAAD7AAEA, "PanFS"},
    {0x20030528, "OrangeFS"},
    {0x013111A8, "IBRIX"},
};

// A home that is yet to be made lies on the file system of its nearest parent.
fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

// The type of the mount that holds `path`, "fuse.sshfs", by the device number that stat(2) and
// mountinfo share; empty when it is not found.
std::string mount_type(const fs::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return {};
  const std::string device = fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
  // "36 35 98:0 /root /mnt rw shared:1 - ext3 /dev/root rw"
  for (const std::string& line : split(read_file("/proc/self/mountinfo").value_or(""), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() < 4 || words[2] != device) continue;
    for (size_t i = 3; i + 1 < words.size(); ++i) {
      if (words[i] == "-") return words[i + 1];
    }
  }
  return {};
}

Status check_local(const Home& home) {
  const fs::path place = nearest_existing(home.root());
  struct statfs status{};
  if (statfs(place.c_str(), &status) != 0) return fail_errno(errno, "home " + place.string());
  // Some architectures' f_type is a signed 32-bit number.
  const uint64_t magic = static_cast<uint32_t>(status.f_type);
  std::string name(network_file_system(magic));
  if (name.empty()) return {};
  if (magic == FUSE_SUPER_MAGIC) {
    const std::string type = mount_type(place);
    // Of this machine all the same: a disk such as NTFS, and the root of a rootless container.
    if (type == "fuseblk" || type == "fuse.fuse-overlayfs") return {};
    if (!type.empty()) name = type;
  }
  return fail(
      ErrorKind::invalid,
      fmt::format("home {} is on a network file system ({})", home.root().string(), name),
      "SQLite's locks and write-ahead log are not safe there. Put the home on a local disk: "
      "set TRAINYARD_HOME, or give --home.");
}

Error explain(Error error) {
  if (error.kind == ErrorKind::denied && error.hint.empty()) {
    error.hint =
        "Give yourself write permission there, or choose another home with TRAINYARD_HOME or "
        "--home.";
  }
  return std::move(error).within("home");
}

Status make_folders(const Home& home) {
  const bool is_new = nearest_existing(home.root()) != home.root();
  TRY(make_dirs(home.root(), kMode));
  std::error_code ignored;
  // An empty folder handed to us becomes ours; one with anything in it may be shared on purpose.
  if (!is_new && fs::is_empty(home.root(), ignored)) chmod(home.root().c_str(), kMode);
  if (access(home.root().c_str(), R_OK | W_OK | X_OK) != 0) {
    return fail_errno(errno, "write to " + home.root().string());
  }
  for (const fs::path& folder : {home.blobs(), home.tmp(), home.runs(), home.node(),
                                 home.log().parent_path(), home.cache()}) {
    TRY(make_dirs(folder, kMode));
    if (access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
      return fail_errno(errno, "write to " + folder.string());
    }
  }
  return {};
}

// What others may not do with one file or folder of ours.
void tighten(const fs::path& path, unsigned mode, std::vector<Tightened>& all) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0 || S_ISLNK(status.st_mode)) return;
  if ((status.st_mode & 077) == 0 || (status.st_mode & S_ISVTX) != 0) return;
  Tightened one{.path = path, .mode = status.st_mode & 07777, .error = {}};
  if (status.st_uid != geteuid()) {
    one.error = "it belongs to another account";
  } else if (chmod(path.c_str(), mode) != 0) {
    one.error = errno_error(errno, "chmod").message;
  }
  all.push_back(std::move(one));
}

std::string user_home() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

}  // namespace

Result<Home> find_home(std::string_view flag) {
  fs::path root = flag;
  if (const char* named = std::getenv("TRAINYARD_HOME"); root.empty() && named != nullptr) {
    root = named;
  }
  if (root.empty()) {
    const std::string user = user_home();
    if (user.empty()) {
      return fail(ErrorKind::invalid, "home: neither TRAINYARD_HOME nor HOME is set",
                  "Set TRAINYARD_HOME to a folder on a local disk.");
    }
    root = fs::path(user) / ".trainyard";
  }
  std::error_code error;
  fs::path absolute = fs::absolute(root, error).lexically_normal();
  if (error) return fail_errno(error.value(), "home " + root.string());
  if (!absolute.has_filename() && absolute.has_relative_path()) absolute = absolute.parent_path();
  return Home(absolute);
}

std::vector<Tightened> tighten_home(const Home& home) {
  std::vector<Tightened> all;
  for (const fs::path& folder : {home.root(), home.blobs(), home.tmp(), home.runs(), home.node(),
                                 home.log().parent_path(), home.cache(), home.environments()}) {
    tighten(folder, kMode, all);
  }
  const std::string database = home.database().string();
  // Not the key of secrets: others may have read it, so that its owner must look (seal::Box).
  for (const fs::path& file :
       {fs::path(database), fs::path(database + "-wal"), fs::path(database + "-shm"), home.log()}) {
    tighten(file, kFileMode, all);
  }
  return all;
}

Status prepare_home(const Home& home) {
  TRY(check_local(home));
  if (Status made = make_folders(home); !made) {
    return std::unexpected(explain(std::move(made).error()));
  }
  return {};
}

std::string_view network_file_system(uint64_t magic) {
  for (const NetworkFileSystem& known : kNetworkFileSystems) {
    if (known.magic == magic) return known.name;
  }
  return {};
}

}  // namespace trainyard
