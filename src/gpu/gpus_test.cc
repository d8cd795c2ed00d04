#include "gpu/gpus.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/file.h"

namespace trainyard::gpu {
namespace {

constexpr int64_t kMb = 1 << 20;

// A machine as the fake library sees it, until the end of the test.
class Machine {
 public:
  explicit Machine(const std::string& state, const char* visible = nullptr) {
    become(state);
    setenv("TRAINYARD_NVML", FAKE_NVML_LIBRARY, 1);
    setenv("FAKE_NVML", path().c_str(), 1);
    visible != nullptr ? setenv("CUDA_VISIBLE_DEVICES", visible, 1)
                       : unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~Machine() {
    unsetenv("TRAINYARD_NVML");
    unsetenv("FAKE_NVML");
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void become(const std::string& state) const { REQUIRE(write_file(path(), state)); }

 private:
  std::string path() const { return folder_.path() / "state"; }
  TempDir folder_;
};

std::vector<int> indexes_of(const std::vector<Device>& devices) {
  std::vector<int> indexes;
  for (const Device& device : devices) indexes.push_back(device.index);
  return indexes;
}

std::vector<int> visible(std::optional<std::string_view> value) {
  const std::vector<Device> devices = {{.index = 0, .uuid = "GPU-aaa1"},
                                       {.index = 1, .uuid = "GPU-aab2"},
                                       {.index = 2, .uuid = "GPU-c"}};
  return indexes_of(visible_of(devices, value));
}

using Indexes = std::vector<int>;

TEST_CASE("a machine's devices are listed with their names, UUIDs and memory") {
  const Machine machine("NVIDIA_H200 GPU-1 143771 0 0\nTesla_T4 GPU-2 15360 50 100\n");
  const Gpus gpus = Gpus::open();
  REQUIRE(gpus.devices().size() == 2);
  CHECK(gpus.why_none().empty());
  CHECK(gpus.remarks().empty());
  CHECK(gpus.devices()[0].index == 0);
  CHECK(gpus.devices()[0].name == "NVIDIA H200");
  CHECK(gpus.devices()[0].uuid == "GPU-1");
  CHECK(gpus.devices()[0].memory_bytes == 143771 * kMb);
  CHECK(gpus.devices()[1].index == 1);
  CHECK(gpus.devices()[1].name == "Tesla T4");
  CHECK(gpus.driver() == "535.129.03");
}

TEST_CASE("usage is asked of the devices named, each time anew") {
  const Machine machine("A GPU-1 1000 10 1\nB GPU-2 1000 50 100\n");
  const Gpus gpus = Gpus::open();
  auto usage = gpus.usage(Indexes{1});
  REQUIRE(usage.size() == 1);
  CHECK(usage[0].index == 1);
  CHECK(usage[0].utilization == 50);
  CHECK(usage[0].memory_used_bytes == 100 * kMb);
  CHECK(usage[0].power_watts == 175);
  CHECK(usage[0].temperature == 55);

  machine.become("A GPU-1 1000 10 1\nB GPU-2 1000 80 200\n");
  usage = gpus.usage(Indexes{1, 0, 7});
  REQUIRE(usage.size() == 2);
  CHECK(usage[0].utilization == 80);
  CHECK(usage[1].utilization == 10);
}

TEST_CASE("a machine without the library has no GPUs, and the reason names the library") {
  const Machine machine("A GPU-1 1000 0 0\n");
  setenv("TRAINYARD_NVML", "/nowhere/libnvidia-ml.so.1", 1);
  const Gpus gpus = Gpus::open();
  CHECK(gpus.devices().empty());
  CHECK(gpus.why_none().find("/nowhere/libnvidia-ml.so.1") != std::string::npos);
  CHECK(gpus.driver().empty());
  CHECK(gpus.usage(Indexes{0}).empty());
  CHECK(gpus.visible(Indexes{0}).empty());
}

TEST_CASE("a library without NVML's functions is no GPU library") {
  const Machine machine("A GPU-1 1000 0 0\n");
  setenv("TRAINYARD_NVML", "libc.so.6", 1);
  const Gpus gpus = Gpus::open();
  CHECK(gpus.devices().empty());
  CHECK(gpus.why_none() == "the NVIDIA driver library is not one that we know");
}

TEST_CASE("a driver that does not start is no GPUs with the driver's words") {
  const Machine machine("broken\nA GPU-1 1000 0 0\n");
  const Gpus gpus = Gpus::open();
  CHECK(gpus.devices().empty());
  CHECK(gpus.why_none() == "the NVIDIA driver does not start: Driver Not Loaded");
}

TEST_CASE("a driver that finds nothing says so") {
  const Machine machine("");
  CHECK(Gpus::open().why_none() == "the NVIDIA driver finds no GPU");
}

TEST_CASE("a failing device is left out, and the others keep their numbers") {
  const Machine machine("A GPU-1 1000 0 0 lost\nB GPU-2 1000 0 0\nC GPU-3 1000 0 0 mute\n");
  const Gpus gpus = Gpus::open();
  CHECK(indexes_of(gpus.devices()) == Indexes{1});
  REQUIRE(gpus.remarks().size() == 2);
  CHECK(gpus.remarks()[0] == "GPU 0 is left out: GPU is lost");
  CHECK(gpus.remarks()[1] == "GPU 2 is left out: it does not say its UUID: GPU is lost");
  CHECK(gpus.why_none().empty());
}

TEST_CASE("when every device fails the reason says how") {
  const Machine machine("A GPU-1 1000 0 0 lost\n");
  CHECK(Gpus::open().why_none() == "no GPU is left: GPU 0 is left out: GPU is lost");
}

TEST_CASE("a device that is lost later has no usage, and the others still do") {
  const Machine machine("A GPU-1 1000 10 1\nB GPU-2 1000 50 100\n");
  const Gpus gpus = Gpus::open();
  machine.become("A GPU-1 1000 10 1 mute\nB GPU-2 1000 50 100\n");
  const auto usage = gpus.usage(Indexes{0, 1});
  REQUIRE(usage.size() == 1);
  CHECK(usage[0].index == 1);
}

TEST_CASE("a device in MIG mode is offered as a whole, and one is told") {
  const Machine machine("A GPU-1 1000 10 100 mig\n");
  const Gpus gpus = Gpus::open();
  CHECK(indexes_of(gpus.devices()) == Indexes{0});
  REQUIRE(gpus.remarks().size() == 1);
  CHECK(gpus.remarks()[0].find("MIG") != std::string::npos);
  const auto usage = gpus.usage(Indexes{0});
  REQUIRE(usage.size() == 1);
  CHECK(usage[0].utilization < 0);
  CHECK(usage[0].memory_used_bytes == 100 * kMb);
}

TEST_CASE("a CUDA_VISIBLE_DEVICES of our own limits what is offered and asked") {
  const Machine machine("A GPU-1 1000 10 1\nB GPU-2 1000 50 100\n", "1");
  const Gpus gpus = Gpus::open();
  CHECK(indexes_of(gpus.devices()) == Indexes{1});
  CHECK(gpus.usage(Indexes{0, 1}).size() == 1);
  REQUIRE(gpus.remarks().size() == 1);
  CHECK(gpus.remarks()[0] == "CUDA_VISIBLE_DEVICES=1 hides 1 of 2 GPUs");
}

TEST_CASE("a CUDA_VISIBLE_DEVICES that is empty hides every device") {
  const Machine machine("A GPU-1 1000 10 1\n", "");
  const Gpus gpus = Gpus::open();
  CHECK(gpus.devices().empty());
  CHECK(gpus.why_none() == "no GPU is left: CUDA_VISIBLE_DEVICES= hides 1 of 1 GPUs");
}

TEST_CASE("CUDA_VISIBLE_DEVICES is read as CUDA reads it") {
  CHECK(visible(std::nullopt) == Indexes{0, 1, 2});
  CHECK(visible("") == Indexes{});
  CHECK(visible("1") == Indexes{1});
  CHECK(visible("2,0") == Indexes{0, 2});
  CHECK(visible(" 0 , 2 ") == Indexes{0, 2});
  CHECK(visible("0,0") == Indexes{0});
  CHECK(visible("GPU-aab2") == Indexes{1});
  CHECK(visible("GPU-aaa,2") == Indexes{0, 2});
  CHECK(visible("GPU-aa") == Indexes{});   // Two begin so.
  CHECK(visible("0,-1,2") == Indexes{0});  // Nothing counts after what names no device.
  CHECK(visible("0,9,2") == Indexes{0});
  CHECK(visible("0,,2") == Indexes{0});
  CHECK(visible("MIG-1") == Indexes{});
  CHECK(visible("NoDevFiles") == Indexes{});
  CHECK(visible("99999999999") == Indexes{});
}

TEST_CASE("a run's devices are named by UUID") {
  const Machine machine("A GPU-1 1000 10 1\nB GPU-2 1000 50 100\n");
  const Gpus gpus = Gpus::open();
  CHECK(gpus.visible(Indexes{1, 0}) == "GPU-2,GPU-1");
  CHECK(gpus.visible(Indexes{}) == "");
}

TEST_CASE("what was opened is shut down once, also after a move") {
  const Machine machine("A GPU-1 1000 10 1\n");
  void* library = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto open = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_open"));
  REQUIRE((open != nullptr));
  {
    Gpus gpus = Gpus::open();
    CHECK(open() == 1);
    Gpus moved = std::move(gpus);
    CHECK(open() == 1);
    CHECK(moved.usage(Indexes{0}).size() == 1);
    moved = Gpus::open();
    CHECK(open() == 1);
  }
  CHECK(open() == 0);
  dlclose(library);
}

TEST_CASE("indexes go into a text and come back") {
  CHECK(parse_indexes("0,3") == Indexes{0, 3});
  CHECK(parse_indexes("") == Indexes{});
  CHECK(parse_indexes("1,x,-2, 4") == Indexes{1, 4});
  CHECK(join_indexes(Indexes{0, 3}) == "0,3");
  CHECK(join_indexes(Indexes{}) == "");
}

}  // namespace
}  // namespace trainyard::gpu
