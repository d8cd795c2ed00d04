#pragma once

#include <optional>
#include <vector>

#include "base/file.h"
#include "runtime/container_meter.h"

namespace trainyard::supervisor {

// What the containers of this node's ranks use. They are an engine's processes: what init sees of
// them are the small programs of ours that stand for them.
class ContainerUsage {
 public:
  // A file a rank, written once its container runs (Plan::process).
  explicit ContainerUsage(const std::vector<fs::path>& files);

  // Looks at them. What one used last is all that is ever known of it: its figures go with it.
  void sample();
  // To what init has seen.
  runtime::Usage added_to(runtime::Usage usage) const;

 private:
  struct Container {
    fs::path file;
    std::optional<runtime::ContainerMeter> meter;
    bool over = false;
    runtime::Usage last;
  };
  static void look(Container& container);

  std::vector<Container> containers_;
  int64_t memory_peak_bytes_ = 0;  // Of all together.
};

}  // namespace trainyard::supervisor
