#pragma once

#include <memory>
#include <string>
#include <vector>

#include "container/plan.h"
#include "supervisor/context.h"

namespace trainyard::supervisor {

// Which runtime carries containers on this node. TRAINYARD_CONTAINER_RUNTIME of its variables
// (docker, podman, bubblewrap) decides; without it an engine that answers, else bubblewrap.
// `unavailable` with what to do.
Result<std::unique_ptr<container::Runtime>> open_runtime(const Variables& variables);

// What says which: the run's own word, else this node's.
Variables runtime_variables(const Assignment& assignment);

// Those of ranks that were killed: an engine keeps containers running whoever started them.
void remove_containers(Context& context, const std::string& mark);

// The name of the job's preparation among the processes of an attempt.
inline constexpr std::string_view kPreparation = "preparation";

// A process's words become those of its container. `words` may be empty: the image's own.
struct Contained {
  std::string name;     // Among the attempt's: a rank's number, or kPreparation.
  std::string records;  // Its file for what it tells.
  std::string python;   // The folder of our package; empty: none.
  const Variables& variables;
};
Result<std::vector<std::string>> contain(Context& context, const Contained& process,
                                         std::vector<std::string> words);

// Without a container: the paths that the run asks for, where it wants them and for itself alone.
Result<std::vector<std::string>> give_view(Context& context, const std::string& name,
                                           std::vector<std::string> words, Variables& variables);

// A shell's text inside: bash where the image has it.
std::vector<std::string> shell_inside(const std::string& text);

}  // namespace trainyard::supervisor
