#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "runtime/container_meter.h"

namespace trainyard::runtime {

// A control group that limits the memory of processes and of all that they start. The kernel ends
// one of them when they need more.
class MemoryGroup {
 public:
  // Below our own group; of version 2, where a group has processes or groups in it, beside it.
  // Fails where we may not make one: then nothing is limited.
  static Result<MemoryGroup> make(const std::string& name, int64_t limit_bytes,
                                  const std::vector<pid_t>& processes,
                                  const fs::path& proc = "/proc");
  // One that a dead process of ours left, to be removed with the object.
  static Result<MemoryGroup> adopt(const std::string& name, const fs::path& proc = "/proc");
  MemoryGroup(MemoryGroup&& other) noexcept : group_(std::exchange(other.group_, {})) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();

  // Whether the kernel killed one of its processes because the limit was reached.
  bool ran_out() const;

 private:
  explicit MemoryGroup(ControlGroup group) : group_(std::move(group)) {}
  ControlGroup group_;
};

// What the descendants of `ancestor` have in memory. Where the sum is above `exact_above`, which
// costs more to find out, pages that they share count once and those of mapped files not at all.
int64_t memory_below(pid_t ancestor, int64_t exact_above);

}  // namespace trainyard::runtime
