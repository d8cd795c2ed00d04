#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/environment.h"

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

// How the words of a command become a process.
enum class CommandForm {
  exec,    // As they are.
  expand,  // $VAR and ${VAR} in them are replaced by the rank's variables, on the node.
  shell,   // One text for `bash -c`, else `sh -c`.
};
std::string_view to_string(CommandForm form);
Result<CommandForm> command_form_from(std::string_view name);

enum class Priority { low, normal, high };
std::string_view to_string(Priority priority);
Result<Priority> priority_from(std::string_view name);

// When an attempt that ended is made again, and how often at most. An attempt lost before user code
// ran is made again anyhow and counts apart.
struct RetryPolicy {
  int max = 0;
  std::vector<std::string>
      causes;  // "failed", "lost", "no_space", "time_limit"; none: the first 2.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("max", self.max);
    f("causes", self.causes);
  }
  bool operator==(const RetryPolicy&) const = default;
};

bool retries(const RetryPolicy& policy, std::string_view cause);

// What was submitted; immutable from then on.
struct RunSpec {
  std::string workspace = "default";
  std::string experiment;
  std::string display_name;  // Empty: the run's id.
  std::string description;
  std::string target = "local";
  // Of `local` under a server elsewhere: the key of the machine where it was typed
  // (model/machine.h).
  std::string host;
  std::vector<std::string> command;
  CommandForm form = CommandForm::exec;
  // The command before its ${{…}} were filled in; empty: it had none. For `run rerun --set`.
  std::string command_template;
  // A text for the shell, once on each node before its ranks, where and as they run; empty: none.
  std::string preparation;
  std::map<std::string, std::string> parameters;  // Literal inputs, as text.
  // Named outputs: folders ("outputs/model/") or files ("outputs/model") in the working folder.
  std::map<std::string, std::string> outputs;
  bool keep_outputs = true;  // false: outputs/ is not captured.
  std::string snapshot;      // The SHA-256 of the code's tree; empty: no code.
  int nodes = 1;
  int processes_per_node = 1;
  std::string distribution;   // "", "none", "pytorch", "tensorflow", "mpi".
  int parameter_servers = 0;  // Of tensorflow: ranks beside the processes per node, its workers.
  Resources resources;
  Priority priority = Priority::normal;
  RetryPolicy retry;
  int64_t time_limit_s = 0;  // 0: none.
  int64_t grace_s = 30;      // From SIGTERM to SIGKILL on cancel and time limit.
  std::map<std::string, std::string> environment_variables;  // Declared by the job.
  std::map<std::string, std::string> submit_environment;  // PATH, HOME, … as they were at submit.
  Environment environment;
  std::vector<std::string> secrets;  // Names; their values become variables of the same names.
  std::map<std::string, std::string> tags;
  std::map<std::string, std::string> properties;
  std::string parent;        // A run's id; empty: none.
  bool interactive = false;  // No command: a program elsewhere reports what it does, and its end.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("workspace", self.workspace);
    f("experiment", self.experiment);
    f("displayName", self.display_name);
    f("description", self.description);
    f("target", self.target);
    f("host", self.host);
    f("command", self.command);
    f("commandForm", self.form);
    f("commandTemplate", self.command_template);
    f("preparation", self.preparation);
    f("parameters", self.parameters);
    f("outputs", self.outputs);
    f("keepOutputs", self.keep_outputs);
    f("snapshot", self.snapshot);
    f("nodes", self.nodes);
    f("processesPerNode", self.processes_per_node);
    f("distribution", self.distribution);
    f("parameterServers", self.parameter_servers);
    f("resources", self.resources);
    f("priority", self.priority);
    f("retry", self.retry);
    f("timeLimitSeconds", self.time_limit_s);
    f("graceSeconds", self.grace_s);
    f("environmentVariables", self.environment_variables);
    f("submitEnvironment", self.submit_environment);
    f("environment", self.environment);
    f("secrets", self.secrets);
    f("tags", self.tags);
    f("properties", self.properties);
    f("parent", self.parent);
    f("interactive", self.interactive);
  }
  bool operator==(const RunSpec&) const = default;
};

// Whose turn it is, is decided among the runs of one queue: those of the server's machine, of the
// machine where they were typed, or of a compute or machine of a workspace.
inline constexpr std::string_view kLocalQueue = "local";
inline constexpr std::string_view kServerTarget = "server";  // The server's machine, by its name.
std::string queue_of(const RunSpec& spec);

// The property that names the run of which this one is a rerun.
inline constexpr const char* kRerunOf = "trainyard.rerunOf";

// Ranks are numbered through, node after node. On a node come its processes, then its share of the
// parameter servers, of which the i-th is on node i % nodes.
int rank_count(const RunSpec& spec);
int ranks_on(const RunSpec& spec, int node);
int first_rank(const RunSpec& spec, int node);

// The rules that need no look at the server: names, numbers in range, a command.
Status check_spec(const RunSpec& spec);

}  // namespace trainyard
