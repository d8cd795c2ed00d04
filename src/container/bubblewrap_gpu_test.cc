#include "container/bubblewrap_gpu.h"

#include <doctest/doctest.h>

#include "base/file.h"

namespace trainyard::container {
namespace {

TEST_CASE("a machine's NVIDIA devices and driver are found, and nothing else of it") {
  const TempDir root;
  const std::string library = root.path() / "usr/lib/x86_64-linux-gnu";
  REQUIRE(make_dirs(library));
  REQUIRE(make_dirs(root.path() / "usr/bin"));
  REQUIRE(make_dirs(root.path() / "dev"));
  for (const char* name : {"dev/nvidia0", "dev/nvidiactl", "dev/sda", "usr/bin/nvidia-smi"}) {
    REQUIRE(write_file(root.path() / name, ""));
  }
  for (const char* name : {"/libcuda.so.535.1", "/libnvidia-ml.so.1", "/libc.so.6"}) {
    REQUIRE(write_file(library + name, ""));
  }
  fs::create_symlink("libcuda.so.535.1", library + "/libcuda.so.1");
  fs::create_symlink("gone", library + "/libcuda.so");
  const GpuFiles files = gpu_files(root.path());
  CHECK(files.devices == std::vector<std::string>{"/dev/nvidia0", "/dev/nvidiactl"});
  REQUIRE(files.driver.size() == 4);
  CHECK(files.driver[0] ==
        Bind{library + "/libcuda.so.1", "/run/nvidia-driver/libcuda.so.1", true});
  CHECK(files.driver[3].target == "/run/nvidia-driver/nvidia-smi");
}

TEST_CASE("a machine without GPUs has none to show") {
  const TempDir root;
  CHECK(gpu_files(root.path()).devices.empty());
}

}  // namespace
}  // namespace trainyard::container
