#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "container/plan.h"
#include "model/policy.h"

// What users write for `docker run`, whichever runtime carries the container.
namespace trainyard::container {

struct Arguments {
  std::vector<Bind> binds;  // -v, --mount type=bind
  struct Memory {
    std::string target;
    int64_t bytes = 0;  // 0: the runtime's own.
    bool operator==(const Memory&) const = default;
  };
  std::vector<Memory> memory;  // --tmpfs, --mount type=tmpfs
  struct Variable {
    std::string name;
    std::optional<std::string> value;  // Absent: as it is outside.
    bool operator==(const Variable&) const = default;
  };
  std::vector<Variable> variables;  // -e
  int64_t shm_bytes = 0;            // 0: not said.
  std::string ipc;
  std::string network;  // Empty: the host's.
  struct Device {
    std::string source;
    std::string target;
    std::string rights = "rwm";
    bool operator==(const Device&) const = default;
  };
  std::vector<Device> devices;
  struct Limit {
    std::string name;  // "nofile", as setrlimit(2) has it, in small letters.
    int64_t soft = 0;  // -1: none.
    int64_t hard = 0;
    bool operator==(const Limit&) const = default;
  };
  std::vector<Limit> limits;
  std::vector<std::string> capabilities;       // --cap-add, "SYS_PTRACE" or "ALL"
  std::vector<std::string> capabilities_less;  // --cap-drop
  std::string gpus;                            // "all", "2", "device=0,1"; empty: not said.
  std::optional<std::string> entrypoint;       // Empty: none, not even the image's.
  std::string user;
  std::string folder;  // --workdir

  bool operator==(const Arguments&) const = default;
};

// Takes "-v A:B", "-vA:B", "--volume=A:B". What is not taken is `invalid`, with the list of what
// is.
Result<Arguments> parse_arguments(std::span<const std::string> words);

// Refuses what `policy` does not allow people of `role`, and says how an admin can allow it. Paths
// are compared by name: resolve_binds() follows their links, on the machine of the run.
enum class RunGpus { none, some };  // Whether the run asked the scheduler for GPUs.
Status check_arguments(std::span<const std::string> words, const RolePolicy& policy,
                       std::string_view role, RunGpus gpus);

// The arguments with every mounted path followed to where it leads now, on this machine. `denied`
// when that lies outside of `host_paths` (Environment::host_paths), however the links got there.
Result<std::vector<std::string>> resolve_binds(std::span<const std::string> words,
                                               std::span<const std::string> host_paths);

// The words of arguments that were written as texts of several ("-v /a:/b --ipc host"), found to be
// such as are taken.
Result<std::vector<std::string>> argument_words(std::span<const std::string> given);

// A text as a shell would take it apart: quotes and backslashes, and nothing else.
Result<std::vector<std::string>> split_words(std::string_view text);

// What is started inside. A run's own command stands in place of the image's, entry point included.
// `invalid` where there is none at all.
Result<std::vector<std::string>> started_words(const Plan& plan, const Arguments& arguments);

// Whether a variable goes inside though nobody named it: mpirun tells its ranks who they are by
// such, and by the attempt's mark whoever has to end it finds its processes.
bool goes_inside(std::string_view variable);

}  // namespace trainyard::container
