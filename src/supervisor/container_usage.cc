#include "supervisor/container_usage.h"

#include <algorithm>

namespace trainyard::supervisor {

ContainerUsage::ContainerUsage(const std::vector<fs::path>& files) {
  for (const fs::path& file : files) containers_.push_back({.file = file});
}

void ContainerUsage::sample() {
  int64_t memory_bytes = 0;
  for (Container& container : containers_) {
    if (!container.over) look(container);
    memory_bytes += container.last.memory_bytes;
  }
  memory_peak_bytes_ = std::max(memory_peak_bytes_, memory_bytes);
}

void ContainerUsage::look(Container& container) {
  if (!container.meter) {
    const auto text = read_file(container.file);
    if (!text) return;  // It does not run yet.
    const auto process = runtime::parse_container_process(*text);
    auto meter = process ? runtime::ContainerMeter::open(*process)
                         : Result<runtime::ContainerMeter>(std::unexpected(process.error()));
    container.over = !meter;
    if (!meter) return;
    container.meter = *std::move(meter);
  }
  const auto usage = container.meter->read();
  container.over = !usage;
  container.last.memory_bytes = usage ? usage->memory_bytes : 0;
  // By the tree of its processes, the time of one that ended under another parent is lost.
  if (usage) container.last.cpu_seconds = std::max(container.last.cpu_seconds, usage->cpu_seconds);
}

runtime::Usage ContainerUsage::added_to(runtime::Usage usage) const {
  for (const Container& container : containers_) {
    usage.cpu_seconds += container.last.cpu_seconds;
    usage.memory_bytes += container.last.memory_bytes;
  }
  usage.memory_peak_bytes += memory_peak_bytes_;
  return usage;
}

}  // namespace trainyard::supervisor
