#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard {

// What people of one role may ask of the machines that build and run their environments. Each list
// names what is allowed; what no list names is refused. "*" in a list allows everything.
struct RolePolicy {
  // Folders of the server's machine from which images may be taken by path (rootfs:FILE and so on).
  std::vector<std::string> image_folders;
  // Files and folders of a run's machine that may be mounted: "/data", or "/data:ro" to read only.
  std::vector<std::string> host_paths;
  std::vector<std::string> capabilities;  // Of --cap-add: "SYS_PTRACE".
  std::vector<std::string> devices;       // Of --device: "/dev/fuse"; "gpus" for --gpus.
  std::vector<std::string> networks;      // Of --network.
  std::vector<std::string> users;         // Of --user: "root", "0:0".

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("imageFolders", self.image_folders);
    f("hostPaths", self.host_paths);
    f("capabilities", self.capabilities);
    f("devices", self.devices);
    f("networks", self.networks);
    f("users", self.users);
  }
  bool operator==(const RolePolicy&) const = default;
};

// Submitters, until an admin allows more: networks that reach no other container, and nothing else.
RolePolicy default_policy();
// Admins: everything.
RolePolicy unlimited_policy();

bool allows_everything(std::span<const std::string> list);

// Whether `list` has the name, or "*".
bool allows_name(std::span<const std::string> list, std::string_view name);

enum class PathUse { read, write };
// Whether an absolute path is one of `list` or lies below one. Compares names only: whoever opens
// the path has to see that no link leads elsewhere.
bool allows_path(std::span<const std::string> list, std::string_view path, PathUse use);

// `invalid` for an entry that could never match, or would allow more than it says: a path that is
// not absolute, "/", or one that holds or lies in one of `guarded` (the server's home, the sockets
// of container engines).
Status check_policy(const RolePolicy& policy, std::span<const std::string> guarded);

}  // namespace trainyard
