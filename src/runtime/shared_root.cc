#include "runtime/shared_root.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <utility>

namespace trainyard::runtime {
namespace {

constexpr const char* kUpper = "/upper";
constexpr const char* kWork = "/work";

// A remount in a user namespace may not drop what the mount has.
unsigned long kept_flags(const std::string& path) {
  struct statvfs about{};
  if (statvfs(path.c_str(), &about) != 0) return 0;
  constexpr std::pair<unsigned long, unsigned long> kFlags[] = {
      {ST_NOSUID, MS_NOSUID},   {ST_NODEV, MS_NODEV},           {ST_NOEXEC, MS_NOEXEC},
      {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME}};
  unsigned long flags = 0;
  for (const auto& [has, flag] : kFlags) flags |= (about.f_flag & has) != 0 ? flag : 0;
  return flags;
}

bool make_read_only(const std::string& folder) {
  if (mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
  return mount(nullptr, folder.c_str(), nullptr,
               MS_BIND | MS_REMOUNT | MS_RDONLY | kept_flags(folder), nullptr) == 0;
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

bool mount_layer(const SharedRoot& shared) {
  mkdir((shared.layer + kUpper).c_str(), 0755);
  mkdir((shared.layer + kWork).c_str(), 0700);
  const std::string upper_below = shared.below + kUpper;
  struct stat found{};
  const bool between = !shared.below.empty() && stat(upper_below.c_str(), &found) == 0;
  const std::string options = "lowerdir=" + (between ? escaped(upper_below) + ":" : std::string()) +
                              escaped(shared.root) + ",upperdir=" + escaped(shared.layer + kUpper) +
                              ",workdir=" + escaped(shared.layer + kWork);
  // An ordinary user's layer keeps its marks in the user's attributes (Linux 5.11). Without
  // `volatile` (5.10) its end would wait for the disk.
  for (const char* more : {",userxattr,volatile", ",volatile", ""}) {
    const unsigned long flags = MS_NOSUID | MS_NODEV;
    if (mount("overlay", shared.root.c_str(), "overlay", flags, (options + more).c_str()) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

SharedState protect_shared(const SharedRoot& shared) {
  if (!make_read_only(shared.shelf)) return SharedState::writable;
  return !shared.layer.empty() && mount_layer(shared) ? SharedState::layered
                                                      : SharedState::read_only;
}

}  // namespace trainyard::runtime
