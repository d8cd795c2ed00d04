#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/gpus.h"

namespace trainyard::gpu {

// How the NVIDIA driver is asked for its devices. All const calls may come from many threads.
class Driver {
 public:
  virtual ~Driver() = default;

  // Finds the devices, in their order, and what is to be said of those left out. To be called once;
  // says why there are none at all, or nothing.
  virtual std::string start(std::vector<Device>& devices, std::vector<std::string>& remarks) = 0;
  virtual bool in_mig_mode(int index) const = 0;
  virtual std::optional<Usage> usage(int index) const = 0;
  virtual std::string version() const = 0;
};

// By the driver's own library.
std::unique_ptr<Driver> nvml_driver();
// By the program nvidia-smi: for a program that cannot load a library.
std::unique_ptr<Driver> smi_driver();

}  // namespace trainyard::gpu
