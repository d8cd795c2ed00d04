#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/fd.h"
#include "base/file.h"
#include "gpu/driver.h"

namespace trainyard::gpu {
namespace {

// A machine whose nvidia-smi is a script, until the end of the test.
class Smi {
 public:
  explicit Smi(const std::string& script) {
    if (!script.empty()) {
      REQUIRE(write_file(folder_.path() / "nvidia-smi", "#!/bin/sh\n" + script));
      fs::permissions(folder_.path() / "nvidia-smi", fs::perms::owner_all);
    }
    setenv("PATH", (folder_.path().string() + ":" + before_).c_str(), 1);
  }
  ~Smi() { setenv("PATH", before_.c_str(), 1); }
  Smi(const Smi&) = delete;
  Smi& operator=(const Smi&) = delete;

  const fs::path& folder() const { return folder_.path(); }
  std::string start() { return driver->start(devices, remarks); }

  std::unique_ptr<Driver> driver = smi_driver();
  std::vector<Device> devices;
  std::vector<std::string> remarks;

 private:
  TempDir folder_;
  std::string before_ = std::getenv("PATH");
};

std::optional<Usage> wait_for_usage(const Driver& driver, int index) {
  std::optional<Usage> usage;
  for (int i = 0; i < 1000 && !usage; ++i) {
    usage = driver.usage(index);
    if (!usage) poll(nullptr, 0, 10);
  }
  return usage;
}

constexpr const char* kTwo = R"(case "$*" in
  *uuid*) echo "0, GPU-1, NVIDIA H200, 143771, 570.1"; echo "1, GPU-2, Tesla T4, 15360, 570.1" ;;
  *loop*) echo "0, 35, 1024, 91.50, 41"; echo "1, [N/A], 2, [Not Supported], 30"; exec sleep 60 ;;
esac
)";

TEST_CASE("nvidia-smi's devices are listed with their names, UUIDs and memory") {
  Smi smi(kTwo);
  CHECK(smi.start() == "");
  REQUIRE(smi.devices.size() == 2);
  CHECK(smi.devices[0].uuid == "GPU-1");
  CHECK(smi.devices[0].name == "NVIDIA H200");
  CHECK(smi.devices[0].memory_bytes == int64_t{143771} << 20);
  CHECK(smi.devices[1].index == 1);
  CHECK(smi.driver->version() == "570.1");
}

TEST_CASE("what nvidia-smi goes on telling is the devices' usage, less what they do not tell") {
  Smi smi(kTwo);
  REQUIRE(smi.start() == "");
  const auto first = wait_for_usage(*smi.driver, 0);
  REQUIRE(first);
  CHECK(first->utilization == 35);
  CHECK(first->memory_used_bytes == 1024 << 20);
  CHECK(first->power_watts == 91.5);
  CHECK(first->temperature == 41);
  const auto second = wait_for_usage(*smi.driver, 1);
  REQUIRE(second);
  CHECK(second->utilization == -1);
  CHECK(second->power_watts == -1);
  CHECK(!smi.driver->usage(7));
}

TEST_CASE("an nvidia-smi that has ended tells no usage any more") {
  Smi smi(
      "case $* in *loop*) echo '0, 1, 1, 1, 1'; read -r _ < \"${0%/*}/end\" ;;"
      " *) echo '0, G, N, 1, 5' ;; esac");
  const std::string end = smi.folder() / "end";
  REQUIRE(mkfifo(end.c_str(), 0600) == 0);
  REQUIRE(smi.start() == "");
  CHECK(wait_for_usage(*smi.driver, 0));
  const Fd ended(open(end.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(write(ended.get(), "\n", 1) == 1);
  bool gone = false;
  for (int i = 0; i < 1000 && !gone; ++i) {
    gone = !smi.driver->usage(0);
    if (!gone) poll(nullptr, 0, 10);
  }
  CHECK(gone);
}

TEST_CASE("where nvidia-smi fails or is not there it is said why there are no GPUs") {
  Smi broken("echo 'NVIDIA-SMI has failed'; exit 9");
  CHECK(broken.start() == "the NVIDIA driver does not answer: nvidia-smi ended with exit code 9");
  CHECK(broken.devices.empty());
}

TEST_CASE("a line that is not understood leaves out that device alone, and is shown") {
  Smi odd("echo '0, GPU-1, A, 1, 2'; echo 'Unable to determine the device handle'");
  CHECK(odd.start() == "");
  CHECK(odd.devices.size() == 1);
  REQUIRE(odd.remarks.size() == 1);
  CHECK(odd.remarks[0].find("Unable to determine") != std::string::npos);
}

}  // namespace
}  // namespace trainyard::gpu
