#include "model/run_spec.h"

#include "base/id.h"

namespace trainyard {
namespace {

// Bounds that keep a mistyped number from becoming a fork bomb or an endless name.
constexpr int kProcessesMax = 1024;
constexpr int kNodesMax = 100'000;
constexpr size_t kTextMax = 4096;
constexpr size_t kArgumentsMax = 64 * 1024;
constexpr int64_t kSecondsMax = 10LL * 365 * 24 * 3600;

std::unexpected<Error> refuse(std::string message, std::string hint = {}) {
  return fail(ErrorKind::invalid, std::move(message), std::move(hint));
}

Status check_variables(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) {
    if (name.empty() || name.find_first_of(std::string("=\0", 2)) != std::string::npos) {
      return refuse("environment variable '" + name + "': a name has no '=' and is not empty");
    }
    if (value.find('\0') != std::string::npos) {
      return refuse("environment variable '" + name + "': its value holds a NUL byte");
    }
  }
  return {};
}

Status check_numbers(const RunSpec& spec) {
  const auto within = [](int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high;
  };
  if (!within(spec.nodes, 1, kNodesMax)) return refuse("nodes must be at least 1");
  if (!within(spec.processes_per_node, 1, kProcessesMax)) {
    return refuse("processes per node must be 1 to " + std::to_string(kProcessesMax));
  }
  if (!within(spec.resources.cpus, 1, 1'000'000)) return refuse("cpus must be at least 1");
  if (spec.resources.memory_bytes < 0) return refuse("memory must not be negative");
  if (!within(spec.resources.gpus, 0, 1'000'000)) return refuse("gpus must not be negative");
  if (!within(spec.time_limit_s, 0, kSecondsMax)) return refuse("the time limit is out of range");
  if (!within(spec.grace_s, 0, kSecondsMax)) return refuse("the grace time is out of range");
  return {};
}

}  // namespace

Status check_spec(const RunSpec& spec) {
  TRY(check_name(spec.workspace, "workspace"));
  TRY(check_name(spec.target, "target"));
  if (spec.experiment.empty()) {
    return refuse("the experiment has no name", "Give one with -e NAME.");
  }
  if (spec.experiment.size() > kTextMax || spec.display_name.size() > kTextMax) {
    return refuse("a name is longer than " + std::to_string(kTextMax) + " bytes");
  }
  if (spec.command.empty() || spec.command.front().empty()) {
    return refuse("there is no command",
                  "Put it after --, as in: trainyard submit -- python train.py");
  }
  if (spec.command.size() > kArgumentsMax) return refuse("the command has too many arguments");
  for (const std::string& word : spec.command) {
    if (word.find('\0') != std::string::npos) return refuse("the command holds a NUL byte");
  }
  if (!spec.distribution.empty() && spec.distribution != "none" && spec.distribution != "pytorch") {
    return refuse("distribution '" + spec.distribution + "' is not known here",
                  "Known: none, pytorch. MPI and TensorFlow come with a later version.");
  }
  TRY(check_variables(spec.environment_variables));
  TRY(check_variables(spec.submit_environment));
  return check_numbers(spec);
}

}  // namespace trainyard
