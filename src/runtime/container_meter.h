#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "runtime/ranks.h"

namespace trainyard::runtime {

// A container as its engine names it: its id, and the number of its first process on this machine.
struct ContainerProcess {
  std::string id;
  pid_t pid = 0;
  bool operator==(const ContainerProcess&) const = default;
};
// "ID PID", as whoever started it leaves it in a file.
Result<ContainerProcess> parse_container_process(std::string_view text);

// Where a process's control group of a controller is: `groups` is its /proc/PID/cgroup, `mounts`
// our /proc/self/mountinfo. Of version 1 where the controller is there, else of version 2.
struct ControlGroup {
  fs::path folder;
  bool unified = false;  // Of version 2.
};
std::optional<ControlGroup> find_control_group(std::string_view groups, std::string_view mounts,
                                               std::string_view controller);

// What the processes of a container use. They are an engine's children, not ours: it is read from
// the container's control groups or, where it has none of its own, added up over its processes.
class ContainerMeter {
 public:
  // `not_found` when that process is not here, or is another: of an engine beyond our namespace.
  // `proc` is /proc but for tests.
  static Result<ContainerMeter> open(const ContainerProcess& process,
                                     const fs::path& proc = "/proc");

  // What it uses now; the peak is not known. `not_found` once it has ended.
  Result<Usage> read() const;

 private:
  Result<Usage> read_groups() const;
  Result<Usage> read_tree() const;

  pid_t pid_ = 0;
  uint64_t start_ticks_ = 0;
  std::optional<ControlGroup> cpu_;
  std::optional<ControlGroup> memory_;
};

}  // namespace trainyard::runtime
