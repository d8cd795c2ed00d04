#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace trainyard {

// What a run asks of the machine it runs on. `--processes-per-node` does not multiply it.
struct Resources {
  int cpus = 1;
  int64_t memory_bytes = 0;  // 0: no wish.
  int gpus = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("cpus", self.cpus);
    f("memoryBytes", self.memory_bytes);
    f("gpus", self.gpus);
  }
  bool operator==(const Resources&) const = default;
};

// What was submitted; immutable from then on.
struct RunSpec {
  std::string workspace = "default";
  std::string experiment;
  std::string display_name;  // Empty: the run's id.
  std::string target = "local";
  std::vector<std::string> command;  // Executed without a shell.
  std::string snapshot;              // The SHA-256 of the code's tree; empty: no code.
  int nodes = 1;
  int processes_per_node = 1;
  std::string distribution;  // "", "none", "pytorch"; more come later.
  Resources resources;
  int64_t time_limit_s = 0;  // 0: none.
  int64_t grace_s = 30;      // From SIGTERM to SIGKILL on cancel and time limit.
  std::map<std::string, std::string> environment_variables;  // Declared by the job.
  std::map<std::string, std::string> submit_environment;  // PATH, HOME, … as they were at submit.
  std::map<std::string, std::string> tags;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("workspace", self.workspace);
    f("experiment", self.experiment);
    f("displayName", self.display_name);
    f("target", self.target);
    f("command", self.command);
    f("snapshot", self.snapshot);
    f("nodes", self.nodes);
    f("processesPerNode", self.processes_per_node);
    f("distribution", self.distribution);
    f("resources", self.resources);
    f("timeLimitSeconds", self.time_limit_s);
    f("graceSeconds", self.grace_s);
    f("environmentVariables", self.environment_variables);
    f("submitEnvironment", self.submit_environment);
    f("tags", self.tags);
  }
  bool operator==(const RunSpec&) const = default;
};

// The rules that need no look at the server: names, numbers in range, a command.
Status check_spec(const RunSpec& spec);

}  // namespace trainyard
