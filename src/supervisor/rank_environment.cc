#include "supervisor/rank_environment.h"

#include <unistd.h>

#include <cstdlib>

#include "base/process.h"
#include "base/text.h"
#include "gpu/gpus.h"
#include "supervisor/distribution.h"

namespace trainyard::supervisor {
namespace {

// The attempt's token holds until its attempt is over; programs that look want a date to come.
constexpr const char* kTokenExpiry = "4102444800";  // 2100-01-01, in Unix seconds.

void add_identity(const Assignment& assignment, Variables& variables) {
  variables["TRAINYARD_RUN_ID"] = assignment.run;
  variables["TRAINYARD_ATTEMPT"] = std::to_string(assignment.attempt);
  variables["TRAINYARD_RESTORED"] = "0";
  variables["TRAINYARD_SERVER"] = assignment.server_url;
  variables["TRAINYARD_TOKEN"] = assignment.token;
  variables["AZUREML_RUN_ID"] = assignment.run;
  variables["AZUREML_RUN_TOKEN"] = assignment.token;
  variables["AZUREML_RUN_TOKEN_EXPIRY"] = kTokenExpiry;
  variables["AZUREML_ARM_SUBSCRIPTION"] = assignment.subscription_id;
  variables["AZUREML_ARM_RESOURCEGROUP"] = assignment.resource_group;
  variables["AZUREML_ARM_WORKSPACE_NAME"] = assignment.spec.workspace;
  variables["AZUREML_ARM_PROJECT_NAME"] = assignment.spec.experiment;
  variables["AZUREML_SERVICE_ENDPOINT"] = assignment.server_url;
  variables["AZUREML_EXPERIMENT_ID"] = assignment.experiment_id;
  variables["AZUREML_WORKSPACE_ID"] = assignment.workspace_id;
  variables["AZUREML_SCRIPT_DIRECTORY_NAME"] = ".";
}

// Numbers count along the PCI bus, as NVML's do; CUDA's own order is another. A run that asked for
// none sees none: another run may have them.
void add_gpus(const Assignment& assignment, Variables& variables) {
  if (!assignment.gives_gpus) return;
  variables["CUDA_VISIBLE_DEVICES"] = gpu::join_indexes(assignment.gpus);
  variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
}

// A name as part of a variable's: other characters become '_'.
std::string variable_part(std::string_view name) {
  std::string part(name);
  for (char& c : part) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) c = '_';
  }
  return part;
}

void add_folders(const RunSpec& spec, const RankFolders& folders, Variables& variables) {
  variables["TRAINYARD_WORK"] = folders.work;
  variables["TRAINYARD_RECORDS"] = folders.records;
  if (!folders.python.empty()) {
    const std::string others = variables["PYTHONPATH"];
    variables["PYTHONPATH"] = folders.python + (others.empty() ? "" : ":" + others);
  }
  for (const auto& [name, value] : spec.parameters) {
    variables["AZUREML_PARAMETER_" + variable_part(name)] = value;
  }
  for (const auto& [name, path] : spec.outputs) {
    const size_t length = path.ends_with('/') ? path.size() - 1 : path.size();
    variables["AZURE_ML_OUTPUT_" + variable_part(name)] =
        folders.work + "/" + path.substr(0, length);
  }
}

// For a rank that is a program of ours: one that builds an environment, with packages that stay on
// the node (env/realise_program.h).
void add_program(const RankFolders& folders, Variables& variables) {
  const Result<fs::path> self = self_path();
  if (!self) return;
  variables["TRAINYARD_PROGRAM"] = *self;
  const char* keep = std::getenv("TRAINYARD_KEEP");
  const bool kept = keep != nullptr && *keep == '/';
  const fs::path node = fs::path(folders.work).parent_path().parent_path();
  variables["TRAINYARD_PACKAGES"] = kept ? fs::path(keep) / "packages" : node / ".packages";
}

bool is_name_character(char c, bool first) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (!first && c >= '0' && c <= '9');
}

// The length of the variable's name at the beginning of `text`.
size_t name_length(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && is_name_character(text[length], length == 0)) ++length;
  return length;
}

std::string expand(std::string_view text, const Variables& variables) {
  std::string expanded;
  for (size_t at = 0; at < text.size();) {
    const bool braced = text.substr(at).starts_with("${");
    const size_t begin = at + (braced ? 2 : 1);
    const size_t length =
        text[at] == '$' && begin <= text.size() ? name_length(text.substr(begin)) : 0;
    const size_t end = begin + length + (braced ? 1 : 0);
    const bool closed = !braced || (end <= text.size() && text[end - 1] == '}');
    const auto found = length > 0 && closed
                           ? variables.find(std::string(text.substr(begin, length)))
                           : variables.end();
    if (found == variables.end()) {
      expanded += text[at++];
      continue;
    }
    expanded += found->second;
    at = end;
  }
  return expanded;
}

bool on_path(const std::string& program, const Variables& variables) {
  const auto path = variables.find("PATH");
  if (path == variables.end()) return false;
  for (const std::string& folder : split(path->second, ':')) {
    if (access(((folder.empty() ? "." : folder) + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

Variables rank_environment(const Assignment& assignment, const RankPlace& place,
                           const RankFolders& folders, const Variables& secrets) {
  const RunSpec& spec = assignment.spec;
  // Elsewhere the submitter's own variables mean nothing; the node's do, as its job was given them.
  // Inside a container neither do: the image has its own.
  const bool inside = spec.environment.recipe.kind == EnvironmentKind::container;
  const bool here =
      spec.target == kLocalQueue || (assignment.submitter_here && !spec.submit_environment.empty());
  Variables variables = inside ? Variables()
                        : here ? spec.submit_environment
                               : folders.node_variables;
  for (const auto& [name, value] : spec.environment.variables) variables[name] = value;
  for (const auto& [name, value] : spec.environment_variables) variables[name] = value;
  for (const auto& [name, value] : secrets) variables[name] = value;
  if (!inside && !variables.contains("PATH")) {
    variables["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  }
  if (!inside && !here) add_program(folders, variables);
  add_identity(assignment, variables);
  add_gpus(assignment, variables);
  add_folders(spec, folders, variables);
  // What a script prints is seen at once, and is not lost when the run is canceled.
  variables.try_emplace("PYTHONUNBUFFERED", "1");
  if (is_distributed(spec)) add_distribution(spec, place, folders.host_file, variables);
  return variables;
}

std::vector<std::string> rank_command(const RunSpec& spec, const Variables& variables) {
  switch (spec.form) {
    case CommandForm::exec:
      return spec.command;
    case CommandForm::expand: {
      std::vector<std::string> words;
      for (const std::string& word : spec.command) words.push_back(expand(word, variables));
      return words;
    }
    case CommandForm::shell:
      return {on_path("bash", variables) ? "bash" : "sh", "-c", spec.command.front()};
  }
  return spec.command;
}

bool is_distributed(const RunSpec& spec) {
  const bool asked = !spec.distribution.empty() && spec.distribution != "none";
  return asked || rank_count(spec) > 1;
}

}  // namespace trainyard::supervisor
