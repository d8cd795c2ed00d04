#include "container/bubblewrap_gpu.h"

#include <algorithm>

#include "base/file.h"

namespace trainyard::container {
namespace {

// Debian's, Red Hat's, and those of a driver that was brought in from outside.
constexpr const char* kLibraryFolders[] = {"/usr/lib/x86_64-linux-gnu",
                                           "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                                           "/usr/local/nvidia/lib64"};
constexpr const char* kLibraries[] = {"libcuda.so", "libnvidia-", "libnvcuvid.so", "libnvoptix.so",
                                      "libcudadebugger.so"};
// Where there are both, the former may be a script that starts the latter.
constexpr const char* kPrograms[] = {"/usr/local/nvidia/bin/nvidia-smi", "/usr/bin/nvidia-smi"};

std::vector<std::string> names_in(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::string name = it->path().filename();
    if (name.starts_with(prefix)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

GpuFiles gpu_files(const std::string& root) {
  const std::string below = root == "/" ? "" : root;
  GpuFiles files;
  for (const std::string& name : names_in(below + "/dev", "nvidia")) {
    files.devices.push_back("/dev/" + name);
  }
  const auto add = [&](const std::string& source, const std::string& name) {
    const std::string target = std::string(kDriverFolder) + "/" + name;
    const auto same = [&](const Bind& bind) { return bind.target == target; };
    std::error_code none;
    if (!fs::is_regular_file(source, none)) return;  // Links are followed.
    if (std::none_of(files.driver.begin(), files.driver.end(), same)) {
      files.driver.push_back({source, target, true});
    }
  };
  for (const char* folder : kLibraryFolders) {
    for (const char* library : kLibraries) {
      for (const std::string& name : names_in(below + folder, library)) {
        if (name.find(".so") != std::string::npos) add(below + folder + "/" + name, name);
      }
    }
  }
  for (const char* program : kPrograms) add(below + program, "nvidia-smi");
  return files;
}

}  // namespace trainyard::container
