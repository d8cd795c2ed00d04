#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::gpu {

struct Device {
  int index = 0;  // NVML's number, in the order of the PCI bus: the one `nvidia-smi` shows.
  std::string uuid;
  std::string name;
  int64_t memory_bytes = 0;
};

// What a device does not tell is negative.
struct Usage {
  int index = 0;
  double utilization = -1;  // Percent of the last moment in which a kernel ran, 0 to 100.
  int64_t memory_used_bytes = -1;
  double power_watts = -1;
  int temperature = -1;  // Degrees Celsius.
};

class Driver;

// The NVIDIA GPUs of this machine, by the driver's own library (NVML), which is looked for when it
// is asked for: we neither link it nor need it. $TRAINYARD_NVML names another one, for tests.
//
// Opening takes microseconds where there is no library, and tens to hundreds of milliseconds where
// there is a GPU: keep one. What is found stays as it is until the next open(). All const calls may
// come from many threads at once (NVML is thread-safe); a device that is lost meanwhile has no
// usage any more.
class Gpus {
 public:
  // Never fails: no library, no driver or no device are no GPUs, and why_none() says so. Offers
  // only what a CUDA_VISIBLE_DEVICES in our own environment names (visible_of()). A device in MIG
  // mode is offered as a whole; its instances are not offered one by one.
  static Gpus open();
  Gpus(Gpus&&) noexcept;
  Gpus& operator=(Gpus&&) noexcept;
  ~Gpus();

  const std::vector<Device>& devices() const { return devices_; }
  // Why devices() is empty, a sentence without its period; empty when it is not.
  const std::string& why_none() const { return why_none_; }
  // What a user should know of devices that are left out or odd: a sentence each, for `doctor`.
  const std::vector<std::string>& remarks() const { return remarks_; }
  // Devices that are not ours or do not answer are left out.
  std::vector<Usage> usage(std::span<const int> indexes) const;
  // "535.129.03"; empty when there is none.
  std::string driver() const;
  // The value of CUDA_VISIBLE_DEVICES that gives a process these devices and no others: their
  // UUIDs, for CUDA numbers devices by speed unless told otherwise, and NVML does not.
  std::string visible(std::span<const int> indexes) const;

 private:
  Gpus();

  std::unique_ptr<Driver> driver_;
  std::vector<Device> devices_;
  std::vector<std::string> remarks_;
  std::string why_none_;
};

// What the value of a CUDA_VISIBLE_DEVICES leaves of `devices`, in their own order. As CUDA reads
// it: numbers, or UUIDs or their beginnings, and nothing counts after the first that names no
// device. Absent: all. A number means the device's index (CUDA_DEVICE_ORDER=PCI_BUS_ID).
std::vector<Device> visible_of(std::vector<Device> devices, std::optional<std::string_view> value);

// "0,3" and back. What is not a number is left out: the text is one of our own.
std::vector<int> parse_indexes(std::string_view text);
std::string join_indexes(std::span<const int> indexes);

}  // namespace trainyard::gpu
