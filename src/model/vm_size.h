#pragma once

#include <string>

#include "base/result.h"

namespace trainyard {

// What a machine of this name has, and what an hour of it costs.
struct VmSize {
  std::string name;
  int cpus = 0;
  double memory_gb = 0;
  int gpus = 0;
  double price = 0;
  double price_low = 0;  // As a low-priority machine, which may be taken away.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("name", self.name);
    f("vCPUs", self.cpus);
    f("memoryGB", self.memory_gb);
    f("gpus", self.gpus);
    f("pricePerHour", self.price);
    f("lowPriorityPricePerHour", self.price_low);
  }
  bool operator==(const VmSize&) const = default;
};

// A name, and numbers in range.
Status check_vm_size(const VmSize& size);

}  // namespace trainyard
