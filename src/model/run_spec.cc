#include "model/run_spec.h"

#include <algorithm>
#include <array>

#include "base/id.h"
#include "model/limits.h"

namespace trainyard {
namespace {

constexpr std::array<std::pair<CommandForm, std::string_view>, 3> kForms = {{
    {CommandForm::exec, "exec"},
    {CommandForm::expand, "expand"},
    {CommandForm::shell, "shell"},
}};
constexpr std::array<std::pair<Priority, std::string_view>, 3> kPriorities = {{
    {Priority::low, "low"},
    {Priority::normal, "normal"},
    {Priority::high, "high"},
}};
constexpr std::array<std::string_view, 4> kRetryCauses = {"failed", "lost", "no_space",
                                                          "time_limit"};

// Bounds that keep a mistyped number from becoming a fork bomb or an endless name.
constexpr int kProcessesMax = 1024;
constexpr int kRunNodesMax = 100'000;
constexpr size_t kArgumentsMax = 64 * 1024;
constexpr size_t kPreparationMax = 64 * 1024;  // Linux takes words twice as long.
constexpr int64_t kSecondsMax = 10LL * 365 * 24 * 3600;
constexpr int64_t kGraceMax = 24LL * 3600;  // A script that ignores SIGTERM holds its node as long.
constexpr int kRetriesMax = 1000;

std::unexpected<Error> refuse_spec(std::string message, std::string hint = {}) {
  return fail(ErrorKind::invalid, std::move(message), std::move(hint));
}

Status check_variables(const std::map<std::string, std::string>& variables) {
  TRY(limits::check_count("environment variables", variables.size(), limits::kVariables));
  for (const auto& [name, value] : variables) {
    if (name.size() + 1 + value.size() > limits::kVariableBytes) {
      return refuse_spec("environment variable '" + name.substr(0, 40) + "': it is longer than " +
                         std::to_string(limits::kVariableBytes) + " bytes");
    }
    if (name.empty() || name.find_first_of(std::string("=\0", 2)) != std::string::npos) {
      return refuse_spec("environment variable '" + name + "': a name has no '=' and is not empty");
    }
    if (value.find('\0') != std::string::npos) {
      return refuse_spec("environment variable '" + name + "': its value holds a NUL byte");
    }
  }
  return {};
}

Status check_numbers(const RunSpec& spec) {
  const auto within = [](int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high;
  };
  if (!within(spec.nodes, 1, kRunNodesMax)) return refuse_spec("nodes must be at least 1");
  if (!within(spec.processes_per_node, 1, kProcessesMax)) {
    return refuse_spec("processes per node must be 1 to " + std::to_string(kProcessesMax));
  }
  if (!within(spec.parameter_servers, 0, kProcessesMax)) {
    return refuse_spec("parameter servers must be 0 to " + std::to_string(kProcessesMax));
  }
  if (spec.parameter_servers > 0 && spec.distribution != "tensorflow") {
    return refuse_spec("only TensorFlow has parameter servers", "Give --distribution tensorflow.");
  }
  if (!within(spec.resources.cpus, 1, 1'000'000)) return refuse_spec("cpus must be at least 1");
  if (spec.resources.memory_bytes < 0) return refuse_spec("memory must not be negative");
  if (!within(spec.resources.gpus, 0, 1'000'000)) return refuse_spec("gpus must not be negative");
  if (!within(spec.time_limit_s, 0, kSecondsMax))
    return refuse_spec("the time limit is out of range");
  if (!within(spec.grace_s, 0, kGraceMax)) return refuse_spec("the grace time must be 0 to 24 h");
  return {};
}

Status check_command(const RunSpec& spec) {
  if (spec.interactive) {
    if (spec.command.empty()) return {};
    return refuse_spec("an interactive run has no command");
  }
  // An image has a command of its own. What a name stands for, the server knows.
  const Environment& environment = spec.environment;
  const bool has_own = environment.recipe.kind == EnvironmentKind::container ||
                       (!environment.name.empty() && environment.hash.empty());
  if (spec.command.empty() && has_own) return {};
  if (spec.command.empty() || spec.command.front().empty()) {
    return refuse_spec("there is no command",
                       "Put it after --, as in: trainyard submit -- python train.py");
  }
  if (spec.form == CommandForm::shell && spec.command.size() != 1) {
    return refuse_spec("a command for the shell is one text");
  }
  if (spec.command.size() > kArgumentsMax) return refuse_spec("the command has too many arguments");
  for (const std::string& word : spec.command) {
    if (word.find('\0') != std::string::npos) return refuse_spec("the command holds a NUL byte");
  }
  return {};
}

Status check_preparation(const RunSpec& spec) {
  if (spec.preparation.find('\0') != std::string::npos) {
    return refuse_spec("the job preparation holds a NUL byte");
  }
  if (spec.preparation.size() > kPreparationMax) {
    return refuse_spec("the job preparation is too long",
                       "Put it into a script beside the code, and name that.");
  }
  return {};
}

// A secret becomes a variable: it must not take the place of one that a rank cannot do without.
Status check_secret_name(const std::string& name) {
  TRY(check_name(name, "secret"));
  constexpr std::string_view kOurs[] = {"TRAINYARD_", "AZUREML_", "AZ_BATCH", "OMPI_"};
  constexpr std::string_view kMachines[] = {"PATH", "HOME", "USER", "LANG", "PYTHONPATH"};
  const bool taken =
      std::any_of(std::begin(kOurs), std::end(kOurs),
                  [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
      std::find(std::begin(kMachines), std::end(kMachines), name) != std::end(kMachines);
  if (!taken) return {};
  return refuse_spec("secret '" + name + "': a run's variable of that name has another meaning",
                     "Keep it under another name.");
}

Status check_retry(const RetryPolicy& retry) {
  if (retry.max < 0 || retry.max > kRetriesMax) {
    return refuse_spec("retries must be 0 to " + std::to_string(kRetriesMax));
  }
  for (const std::string& cause : retry.causes) {
    if (std::find(kRetryCauses.begin(), kRetryCauses.end(), cause) == kRetryCauses.end()) {
      return refuse_spec("'" + cause + "' is not a cause to try again for",
                         "Causes: failed, lost, no_space, time_limit.");
    }
  }
  return {};
}

// Named outputs lie in outputs/, the one folder that is captured.
Status check_outputs(const RunSpec& spec) {
  for (const auto& [name, path] : spec.outputs) {
    const bool strays =
        path.find("..") != std::string::npos || path.find('\0') != std::string::npos;
    if (name.empty() || strays || !path.starts_with("outputs/")) {
      return refuse_spec("output '" + name + "': must lie in outputs/");
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(CommandForm form) {
  return std::find_if(kForms.begin(), kForms.end(), [&](const auto& f) { return f.first == form; })
      ->second;
}

Result<CommandForm> command_form_from(std::string_view name) {
  for (const auto& [form, known] : kForms) {
    if (known == name) return form;
  }
  return refuse_spec("'" + std::string(name) + "' is not a form of command",
                     "Forms: exec, expand, shell.");
}

std::string_view to_string(Priority priority) {
  return std::find_if(kPriorities.begin(), kPriorities.end(),
                      [&](const auto& p) { return p.first == priority; })
      ->second;
}

Result<Priority> priority_from(std::string_view name) {
  for (const auto& [priority, known] : kPriorities) {
    if (known == name) return priority;
  }
  return refuse_spec("'" + std::string(name) + "' is not a priority",
                     "Priorities: low, normal, high.");
}

bool retries(const RetryPolicy& policy, std::string_view cause) {
  if (policy.causes.empty()) return cause == "failed" || cause == "lost";
  return std::find(policy.causes.begin(), policy.causes.end(), cause) != policy.causes.end();
}

std::string queue_of(const RunSpec& spec) {
  if (spec.target == kServerTarget) return std::string(kLocalQueue);
  // No workspace's name begins with '@'.
  if (spec.target == kLocalQueue) return spec.host.empty() ? spec.target : "@" + spec.host;
  return spec.workspace + "/" + spec.target;
}

int rank_count(const RunSpec& spec) {
  return spec.nodes * spec.processes_per_node + spec.parameter_servers;
}

int ranks_on(const RunSpec& spec, int node) {
  const int more = node < spec.parameter_servers % spec.nodes ? 1 : 0;
  return spec.processes_per_node + spec.parameter_servers / spec.nodes + more;
}

int first_rank(const RunSpec& spec, int node) {
  const int servers_before = node * (spec.parameter_servers / spec.nodes) +
                             std::min(node, spec.parameter_servers % spec.nodes);
  return node * spec.processes_per_node + servers_before;
}

Status check_spec(const RunSpec& spec) {
  TRY(check_name(spec.workspace, "workspace"));
  TRY(check_name(spec.target, "target"));
  if (!spec.host.empty()) TRY(check_name(spec.host, "host"));
  if (spec.experiment.empty()) {
    return refuse_spec("the experiment has no name", "Give one with -e NAME.");
  }
  if (std::max(spec.experiment.size(), spec.display_name.size()) > limits::kNameBytes) {
    return refuse_spec("a name is longer than " + std::to_string(limits::kNameBytes) + " bytes");
  }
  if (spec.description.size() > limits::kDescriptionBytes) {
    return refuse_spec("the description is longer than " +
                       std::to_string(limits::kDescriptionBytes) + " bytes");
  }
  TRY(limits::check_pairs("tag", spec.tags, limits::kTags));
  TRY(limits::check_pairs("property", spec.properties, limits::kProperties));
  TRY(limits::check_pairs("parameter", spec.parameters, limits::kParameters));
  TRY(check_command(spec));
  TRY(check_preparation(spec));
  TRY(check_retry(spec.retry));
  TRY(check_outputs(spec));
  for (const std::string& secret : spec.secrets) {
    TRY(check_secret_name(secret));
    if (spec.environment_variables.contains(secret)) {
      return refuse_spec("variable " + secret + " is given twice, as a value and as a secret");
    }
  }
  constexpr std::array kDistributions = {"", "none", "pytorch", "mpi", "tensorflow"};
  if (std::ranges::find(kDistributions, spec.distribution) == kDistributions.end()) {
    return refuse_spec("distribution '" + spec.distribution + "' is not known",
                       "Known: none, pytorch, mpi, tensorflow.");
  }
  TRY(check_variables(spec.environment_variables));
  TRY(check_variables(spec.submit_environment));
  TRY(check_variables(spec.environment.variables));
  return check_numbers(spec);
}

}  // namespace trainyard
