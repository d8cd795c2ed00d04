#include "container/bubblewrap_layer.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"

namespace trainyard::container {
namespace {

Status write_text(const char* path, const std::string& text) {
  TRY_SET(const Fd fd, open_file(path, O_WRONLY));
  return write_all(fd.get(), text, path);
}

// Whether all ids of the image are such as we have in a user namespace of our own: of what belongs
// to others the kernel can make no copy there.
bool belongs_to_us(const std::string& root) {
  for (const char* name : {"", "/etc", "/usr"}) {
    struct stat found{};
    if (lstat((root + name).c_str(), &found) != 0) continue;
    if (found.st_uid != geteuid() || found.st_gid != getegid()) return false;
  }
  return true;
}

// Mounts of our own; as an ordinary user by way of a user namespace, in which every id is what it
// was.
Status own_mounts(const std::string& root) {
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  if (unshare(CLONE_NEWNS) != 0) {
    if (!belongs_to_us(root)) return fail(ErrorKind::denied, root + " belongs to another");
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return fail_errno(errno, "unshare");
    TRY(write_text("/proc/self/setgroups", "deny"));
    TRY(write_text("/proc/self/uid_map", uid + " " + uid + " 1\n"));
    TRY(write_text("/proc/self/gid_map", gid + " " + gid + " 1\n"));
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return fail_errno(errno, "make the mounts our own");
  }
  return {};
}

// A path among the options of an overlay.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == ':' || c == ',' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

Status mount_layer(const std::string& root, const std::string& below, const std::string& folder) {
  for (const char* name : {"/upper", "/work", "/root"}) TRY(make_dirs(folder + name));
  std::error_code ignored;
  const bool between = !below.empty() && fs::is_directory(changes_of(below), ignored);
  const std::string options =
      "lowerdir=" + (between ? escaped(changes_of(below)) + ":" : std::string()) + escaped(root) +
      ",upperdir=" + escaped(changes_of(folder)) + ",workdir=" + escaped(folder + "/work");
  // An ordinary user's layer keeps its own marks in attributes that are the user's (Linux 5.11).
  // Without `volatile` (5.10) its end would wait until the whole disk is written out.
  for (const char* more : {",userxattr,volatile", ",volatile", ""}) {
    if (mount("overlay", (folder + "/root").c_str(), "overlay", 0, (options + more).c_str()) == 0) {
      return {};
    }
  }
  return fail_errno(errno, "mount a layer in " + folder);
}

}  // namespace

std::string changes_of(const std::string& folder) { return folder + "/upper"; }

Result<LayerPlace> enter_layer(const std::string& root, const std::string& below,
                               const std::string& folder) {
  TRY(remove_tree(folder));
  TRY(make_dirs(folder, 0700));
  // Or what is made in it would get the group of a folder above that hands its own down.
  if (chmod(folder.c_str(), 0700) != 0) return fail_errno(errno, "chmod " + folder);
  TRY(own_mounts(root));
  if (mount_layer(root, below, folder)) return LayerPlace::disk;
  // A disk of a network, or one that is a layer itself.
  if (mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0) {
    return fail_errno(errno, "mount memory in " + folder);
  }
  TRY(mount_layer(root, below, folder));
  return LayerPlace::memory;
}

}  // namespace trainyard::container
