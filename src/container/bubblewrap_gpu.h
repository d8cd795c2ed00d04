#pragma once

#include <string>
#include <vector>

#include "container/plan.h"

namespace trainyard::container {

// What a container needs of this machine to use its NVIDIA GPUs: which of them are used
// CUDA_VISIBLE_DEVICES says.
struct GpuFiles {
  std::vector<std::string> devices;  // /dev/nvidia0, /dev/nvidiactl, …
  std::vector<Bind> driver;          // Its libraries and nvidia-smi, into kDriverFolder.
};
// They come last in LD_LIBRARY_PATH and PATH inside.
inline constexpr const char* kDriverFolder = "/run/nvidia-driver";

// Of the machine whose root this is, "/" but for tests.
GpuFiles gpu_files(const std::string& root);

}  // namespace trainyard::container
