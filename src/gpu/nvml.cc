#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "gpu/driver.h"

namespace trainyard::gpu {
namespace {

// What we need of nvml.h, which Debian's main archive does not have. NVML never changes a symbol's
// meaning: what would gets a new name (_v2).
using NvmlDevice = struct NvmlDeviceTag*;
using NvmlReturn = int;
constexpr NvmlReturn kSuccess = 0;
constexpr NvmlReturn kFunctionNotFound = 13;
constexpr unsigned kTemperatureOfGpu = 0;
constexpr unsigned kMigOn = 1;
constexpr size_t kTextMax = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest of them.

struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// The second form tells apart what the driver keeps for itself, as nvidia-smi does.
struct NvmlMemory2 {
  unsigned version = sizeof(NvmlMemory2) | (2U << 24);
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

struct NvmlUtilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

constexpr int kDevicesMax = 64;  // A library that says more is not one of this world.

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Handle = std::unique_ptr<void, CloseLibrary>;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The library and its functions; one that it lacks stays null and fails when it is called.
struct Library {
  Handle handle;
  bool started = false;
  std::vector<std::pair<int, NvmlDevice>> devices;  // By index.

  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlReturn) = nullptr;
  NvmlReturn (*driver_version)(char*, unsigned) = nullptr;
  NvmlReturn (*count)(unsigned*) = nullptr;
  NvmlReturn (*by_index)(unsigned, NvmlDevice*) = nullptr;
  NvmlReturn (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlReturn (*name)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlReturn (*memory_1)(NvmlDevice, NvmlMemory*) = nullptr;
  NvmlReturn (*memory_2)(NvmlDevice, NvmlMemory2*) = nullptr;
  NvmlReturn (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlReturn (*power)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*temperature)(NvmlDevice, unsigned, unsigned*) = nullptr;
  NvmlReturn (*mig_mode)(NvmlDevice, unsigned*, unsigned*) = nullptr;

  ~Library() {
    if (started && shutdown != nullptr) shutdown();
  }

  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(handle.get(), symbol));
  }

  // Loads and starts it; says why not, or nothing.
  std::string start() {
    const std::string named = variable("TRAINYARD_NVML");
    std::string problem;
    for (const char* file : {"libnvidia-ml.so.1", "libnvidia-ml.so"}) {
      const std::string path = named.empty() ? file : named;
      handle.reset(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
      if (handle) break;
      // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message by thread.
      if (problem.empty()) problem = dlerror();
    }
    if (!handle) return "no NVIDIA driver library: " + problem;
    find_all();
    if (init == nullptr || count == nullptr || by_index == nullptr || uuid == nullptr) {
      return "the NVIDIA driver library is not one that we know";
    }
    const NvmlReturn code = init();
    started = code == kSuccess;
    return started ? "" : "the NVIDIA driver does not start: " + words(code);
  }

  void find_all() {
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(error_string, "nvmlErrorString");
    find(driver_version, "nvmlSystemGetDriverVersion");
    find(count, "nvmlDeviceGetCount_v2");
    find(by_index, "nvmlDeviceGetHandleByIndex_v2");
    find(uuid, "nvmlDeviceGetUUID");
    find(name, "nvmlDeviceGetName");
    find(memory_1, "nvmlDeviceGetMemoryInfo");
    find(memory_2, "nvmlDeviceGetMemoryInfo_v2");
    find(utilization, "nvmlDeviceGetUtilizationRates");
    find(power, "nvmlDeviceGetPowerUsage");
    find(temperature, "nvmlDeviceGetTemperature");
    find(mig_mode, "nvmlDeviceGetMigMode");
  }

  // "GPU is lost".
  std::string words(NvmlReturn code) const {
    const char* text = error_string != nullptr ? error_string(code) : nullptr;
    return text != nullptr ? text : "error " + std::to_string(code);
  }

  // Fills `device` and keeps its handle; says why not, or nothing.
  std::string take(Device& device) {
    NvmlDevice found = nullptr;
    if (const auto code = by_index(static_cast<unsigned>(device.index), &found); code != kSuccess) {
      return words(code);
    }
    std::array<char, kTextMax> text{};
    if (const auto code = uuid(found, text.data(), text.size()); code != kSuccess) {
      return "it does not say its UUID: " + words(code);
    }
    device.uuid = text.data();
    NvmlMemory all;
    if (const auto code = memory(found, all); code != kSuccess) {
      return "it does not say how much memory it has: " + words(code);
    }
    device.memory_bytes = static_cast<int64_t>(all.total);
    text = {};
    if (name != nullptr && name(found, text.data(), text.size()) == kSuccess) {
      device.name = text.data();
    }
    devices.emplace_back(device.index, found);
    return "";
  }

  NvmlReturn memory(NvmlDevice asked, NvmlMemory& all) const {
    NvmlMemory2 more;
    if (memory_2 != nullptr && memory_2(asked, &more) == kSuccess) {
      all = {.total = more.total, .free = more.free, .used = more.used};
      return kSuccess;
    }
    return memory_1 != nullptr ? memory_1(asked, &all) : kFunctionNotFound;
  }

  bool in_mig_mode(int index) const {
    unsigned current = 0;
    unsigned pending = 0;
    return mig_mode != nullptr && mig_mode(device(index), &current, &pending) == kSuccess &&
           current == kMigOn;
  }

  NvmlDevice device(int index) const {
    for (const auto& [number, found] : devices) {
      if (number == index) return found;
    }
    return nullptr;
  }

  std::optional<Usage> usage(int index) const {
    const NvmlDevice asked = device(index);
    if (asked == nullptr) return std::nullopt;
    Usage usage{.index = index};
    bool any = false;
    const auto tells = [&](bool told) {
      any = any || told;
      return told;
    };
    NvmlUtilization rates;
    if (tells(utilization != nullptr && utilization(asked, &rates) == kSuccess)) {
      usage.utilization = rates.gpu;
    }
    NvmlMemory all;
    if (tells(memory(asked, all) == kSuccess)) {
      usage.memory_used_bytes = static_cast<int64_t>(all.used);
    }
    unsigned number = 0;
    if (tells(power != nullptr && power(asked, &number) == kSuccess)) {
      usage.power_watts = number / 1000.0;
    }
    if (tells(temperature != nullptr &&
              temperature(asked, kTemperatureOfGpu, &number) == kSuccess)) {
      usage.temperature = static_cast<int>(number);
    }
    return any ? std::optional(usage) : std::nullopt;
  }
};

class NvmlDriver : public Driver {
 public:
  std::string start(std::vector<Device>& devices, std::vector<std::string>& remarks) override {
    if (std::string problem = library_.start(); !problem.empty()) return problem;
    unsigned count = 0;
    if (const auto code = library_.count(&count); code != kSuccess) {
      return "the NVIDIA driver does not say how many GPUs there are: " + library_.words(code);
    }
    for (int i = 0; i < std::min(static_cast<int>(count), kDevicesMax); ++i) {
      Device device{.index = i};
      if (const std::string problem = library_.take(device); !problem.empty()) {
        remarks.push_back("GPU " + std::to_string(i) + " is left out: " + problem);
      } else {
        devices.push_back(std::move(device));
      }
    }
    return "";
  }

  bool in_mig_mode(int index) const override { return library_.in_mig_mode(index); }
  std::optional<Usage> usage(int index) const override { return library_.usage(index); }

  std::string version() const override {
    std::array<char, kTextMax> text{};
    if (library_.driver_version == nullptr) return "";
    if (library_.driver_version(text.data(), text.size()) != kSuccess) return "";
    return text.data();
  }

 private:
  Library library_;
};

}  // namespace

std::unique_ptr<Driver> nvml_driver() { return std::make_unique<NvmlDriver>(); }

}  // namespace trainyard::gpu
