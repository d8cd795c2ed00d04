#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"

namespace trainyard::engine {

// What this machine has for runs: the CPUs we may use, the memory it has or our cgroups allow.
Capacity machine_capacity();

// "MemTotal" of /proc/meminfo in bytes; 0 when it is not in the text.
int64_t memory_total(std::string_view meminfo);
// What a cgroup's file allows: "max" and anything that is no number is none, -1.
int64_t memory_limit(std::string_view text);
// Our group's path in the lines of /proc/self/cgroup: version 2's for an empty `controller`.
std::string cgroup_path(std::string_view text, std::string_view controller);

// Kills every process that was started with NAME=VALUE in its environment, until none is left.
Status kill_marked(std::string_view name, std::string_view value);

}  // namespace trainyard::engine
