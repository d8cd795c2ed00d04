#include "dialects/file_kind.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "dialects/keys.h"

namespace trainyard::dialects {
namespace {

constexpr FileKind kSweep = {"a sweep job", ""};
constexpr FileKind kPipeline = {"a pipeline job", ""};
constexpr FileKind kAutoMl = {"an AutoML job", ""};
constexpr FileKind kSpark = {"a Spark job", ""};
constexpr FileKind kParallel = {"a parallel job", ""};
constexpr FileKind kImport = {"an import job", ""};
constexpr FileKind kTransfer = {"a data transfer job", ""};
constexpr FileKind kFineTuning = {"a fine-tuning job", ""};
constexpr FileKind kComponent = {"a component", ""};
constexpr FileKind kDeployment = {"a deployment", ""};
constexpr FileKind kEndpoint = {"an endpoint", ""};
constexpr FileKind kSchedule = {"a schedule", ""};
constexpr FileKind kDatastore = {"a datastore", ""};
constexpr FileKind kDataset = {"a data asset", ""};
constexpr FileKind kModel = {"a model", ""};
constexpr FileKind kConnection = {"a connection", ""};
constexpr FileKind kRegistry = {"a registry", ""};
constexpr FileKind kFeature = {"a feature store's asset", ""};
constexpr FileKind kOtherCompute = {"a compute other than amlcompute", ""};
constexpr FileKind kWorkspace = {"a workspace", "trainyard workspace create NAME"};
constexpr FileKind kCompute = {"a compute", "trainyard compute create -f "};
constexpr FileKind kEnvironmentFile = {"an environment", "trainyard environment create -f "};
constexpr FileKind kRunconfig = {"a run configuration", "trainyard run submit-script -c "};

struct NamedKind {
  std::string_view name;
  FileKind kind;
};

// The end of a schema's name, in lower case, without ".schema.json". The first that fits decides:
// "commandComponent" ends in "component".
constexpr auto kSchemas = std::to_array<NamedKind>({
    {"sweepjob", kSweep},
    {"pipelinejob", kPipeline},
    {"sparkjob", kSpark},
    {"paralleljob", kParallel},
    {"importjob", kImport},
    {"component", kComponent},
    {"deployment", kDeployment},
    {"endpoint", kEndpoint},
    {"schedule", kSchedule},
    {"monitor", kSchedule},
    {"amlcompute", kCompute},
    {"computeinstance", kOtherCompute},
    {"compute", kOtherCompute},
    {"environment", kEnvironmentFile},
    {"workspace", kWorkspace},
    {"connection", kConnection},
    {"registry", kRegistry},
    {"model", kModel},
    {"data", kDataset},
    {"mltable", kDataset},
    {"featureset", kFeature},
    {"featurestore", kFeature},
    {"featurestoreentity", kFeature},
    {"azureblob", kDatastore},
    {"azurefile", kDatastore},
    {"azuredatalakegen1", kDatastore},
    {"azuredatalakegen2", kDatastore},
    {"onelake", kDatastore},
});

constexpr auto kTypes = std::to_array<NamedKind>({
    {"sweep", kSweep},
    {"pipeline", kPipeline},
    {"automl", kAutoMl},
    {"spark", kSpark},
    {"parallel", kParallel},
    {"import", kImport},
    {"data_transfer", kTransfer},
    {"finetuning", kFineTuning},
    {"amlcompute", kCompute},
    {"computeinstance", kOtherCompute},
    {"virtualmachine", kOtherCompute},
    {"synapsespark", kOtherCompute},
    {"azure_blob", kDatastore},
    {"azure_file", kDatastore},
    {"azure_data_lake_gen1", kDatastore},
    {"azure_data_lake_gen2", kDatastore},
    {"uri_file", kDataset},
    {"uri_folder", kDataset},
    {"mltable", kDataset},
    {"mlflow_model", kModel},
    {"custom_model", kModel},
    {"triton_model", kModel},
});

// Keys at the top of a file that has neither a schema nor a type.
constexpr auto kMarks = std::to_array<NamedKind>({
    {"jobs", kPipeline},
    {"pipeline", kPipeline},
    {"trial", kSweep},
    {"search_space", kSweep},
    {"create_job", kSchedule},
    {"endpoint_name", kDeployment},
    {"auth_mode", kEndpoint},
    {"image", kEnvironmentFile},
    {"conda_file", kEnvironmentFile},
    {"build", kEnvironmentFile},
});

// In lower case: a run configuration's keys are spelled freely.
constexpr std::string_view kRunconfigMarks[] = {"script",         "framework", "communicator",
                                                "argumentvector", "nodecount", "arguments"};

std::string lower(std::string_view text) {
  std::string all;
  for (const char c : text) {
    if (c != '_') all.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return all;
}

std::string_view scalar_at(const Node& root, std::string_view key) {
  const Node* node = at(root, key);
  return node != nullptr && node->is_scalar() ? std::string_view(node->text) : "";
}

std::optional<FileKind> kind_of_schema(std::string_view schema) {
  schema = schema.substr(schema.find_last_of('/') + 1);
  const std::string name = lower(schema.substr(0, schema.find('.')));
  // autoMLImageClassificationJob and its like.
  if (name.starts_with("automl")) return kAutoMl;
  for (const NamedKind& row : kSchemas) {
    if (name.ends_with(row.name)) return row.kind;
  }
  return std::nullopt;
}

}  // namespace

bool is_runconfig(const Document& document) {
  const Node& root = document.root;
  if (!root.is_map() || at(root, "$schema") != nullptr || at(root, "type") != nullptr) return false;
  return std::any_of(root.children.begin(), root.children.end(), [](const Node& child) {
    return std::ranges::find(kRunconfigMarks, lower(child.key)) != std::end(kRunconfigMarks);
  });
}

std::optional<FileKind> other_kind(const Document& document) {
  const Node& root = document.root;
  if (auto kind = kind_of_schema(scalar_at(root, "$schema"))) return kind;
  const std::string_view type = scalar_at(root, "type");
  for (const NamedKind& row : kTypes) {
    if (lower(type) == lower(row.name)) return row.kind;
  }
  if (!type.empty() || at(root, "command") != nullptr) return std::nullopt;
  for (const NamedKind& row : kMarks) {
    if (at(root, row.name) != nullptr) return row.kind;
  }
  if (is_runconfig(document)) return kRunconfig;
  return std::nullopt;
}

Finding refuse_kind(const Document& document, const FileKind& kind) {
  const Node* named = at(document.root, "type");
  if (named == nullptr) named = at(document.root, "$schema");
  const std::string place = document.place(named != nullptr ? named->key_line : 1);
  const std::string what = "describes " + std::string(kind.noun);
  if (kind.command.empty()) {
    return {Severity::error, place, what + ", which is not supported yet", {}};
  }
  const std::string file = kind.command.ends_with(' ') ? document.file : "";
  return {Severity::error, place, what + ", not a job", "Use: " + std::string(kind.command) + file};
}

}  // namespace trainyard::dialects
