#include "dialects/compute.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "dialects/key_words.h"
#include "dialects/overrides.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kNoSuchThing = "there is no such thing here";
constexpr std::string_view kOfAzure = "a network of Azure's";

constexpr auto kComputeKeys = std::to_array<Key>({
    {"$schema", kText, kNoEffect, "*", "for editors"},
    {"name", kText, kWorks, "", "its name; `-n` wins"},
    {"type", kText, kWorks, "amlcompute", "`amlcompute`, a cluster; others are refused"},
    {"size", kText, kWorks, "", "a row of `compute list-sizes`; none: what the nodes have"},
    {"tier", kText, kWorks, "dedicated", "`dedicated` or `low_priority`"},
    {"min_instances", kWhole, kWorks, "0", "nodes that stay up"},
    {"max_instances", kWhole, kWorks, "1", "nodes at most"},
    {"idle_time_before_scale_down", kWhole, kWorks, "120", "seconds, then an idle node goes down"},
    {"engine", kText, kWorks, "slurm", "our own: what carries the runs, `slurm` or `local`"},
    {"ssh", kText, kWorks, "", "our own: `USER@LOGIN`, where Slurm's commands are"},
    {"partition", kText, kWorks, "", "our own: Slurm's partition"},
    {"account", kText, kWorks, "", "our own: Slurm's account"},
    {"qos", kText, kWorks, "", "our own: Slurm's quality of service"},
    {"sbatch", Type::texts, kWorks, "", "our own: options of every job, as in `--gres=gpu:1`"},
    {"setup", kText, kWorks, "", "our own: a shell text that runs on a node before a run"},
    {"node_up", kText, kWorks, "", "our own: the program that brings a node up"},
    {"node_down", kText, kWorks, "", "our own: the program that takes a node down"},
    {"description", kText, kNoEffect, "", kNoSuchThing},
    {"tags", kMap, kNoEffect, "", kNoSuchThing},
    {"tags.*", kText, kNoEffect, "*", ""},
    {"location", kText, kNoEffect, "*", "a cluster is where it is"},
    {"ssh_public_access_enabled", Type::boolean, kNoEffect, "false", "the cluster decides"},
    {"ssh_settings", kMap, kNoEffect, "", "the cluster decides"},
    {"ssh_settings.admin_username", kText, kNoEffect, "*", ""},
    {"ssh_settings.admin_password", kText, kNoEffect, "*", ""},
    {"ssh_settings.ssh_key_value", kText, kNoEffect, "*", ""},
    {"network_settings", kMap, kNoEffect, "", kOfAzure},
    {"network_settings.vnet_name", kText, kNoEffect, "*", ""},
    {"network_settings.subnet", kText, kNoEffect, "*", ""},
    {"enable_node_public_ip", Type::boolean, kNoEffect, "true", kOfAzure},
    {"identity", kMap, kNoEffect, "", "a run is whoever submitted it"},
    {"identity.type", kText, kNoEffect, "*", ""},
    {"identity.user_assigned_identities", Type::list, kNoEffect, "*", ""},
});

constexpr Dialect kComputeDialect = {"compute", kComputeKeys};

// Puts the file's values into a spec. A wrong type has been told of by the table; it is passed
// over.
class ComputeReader {
 public:
  ComputeReader(const Document& document, Findings& findings, ComputeSpec& spec)
      : document_(document), findings_(findings), spec_(spec) {}

  void read() {
    type();
    tier();
    const std::pair<std::string_view, std::string*> texts[] = {
        {"name", &spec_.name},       {"size", &spec_.vm_size},
        {"engine", &spec_.engine},   {"ssh", &spec_.ssh},
        {"qos", &spec_.qos},         {"partition", &spec_.partition},
        {"account", &spec_.account}, {"setup", &spec_.setup},
        {"node_up", &spec_.node_up}, {"node_down", &spec_.node_down}};
    for (const auto& [key, into] : texts) {
      if (const Node* node = value(key)) *into = node->text;
    }
    whole("min_instances", spec_.min_nodes);
    whole("max_instances", spec_.max_nodes);
    whole("idle_time_before_scale_down", spec_.idle_seconds);
    const Node* lines = at(document_.root, "sbatch");
    if (lines == nullptr || !lines->is_list()) return;
    spec_.sbatch.clear();
    for (const Node& line : lines->children) spec_.sbatch.push_back(line.text);
  }

 private:
  const Node* value(std::string_view key) const {
    const Node* node = at(document_.root, key);
    return node != nullptr && node->is_scalar() ? node : nullptr;
  }

  template <class T>
  void whole(std::string_view key, T& into) {
    const Node* node = value(key);
    const auto number = node == nullptr ? std::nullopt : as_int(*node);
    if (!number) return;
    if (*number < 0 || *number > std::numeric_limits<int>::max()) {
      return error(*node, std::string(key) + ": is out of range");
    }
    into = static_cast<T>(*number);
  }

  void type() {
    const Node* node = value("type");
    if (node == nullptr || node->text == "amlcompute") return;
    error(*node, "type: '" + node->text + "' is not made here", "Types: amlcompute, a cluster.");
  }

  void tier() {
    const Node* node = value("tier");
    if (node == nullptr) return;
    auto priority = vm_priority_from(node->text);
    if (!priority) return error(*node, "tier: " + priority.error().message, priority.error().hint);
    spec_.vm_priority = *std::move(priority);
  }

  void error(const Node& node, std::string message, std::string hint = {}) {
    const int line = node.key_line != 0 ? node.key_line : std::max(1, node.line);
    findings_.push_back(
        {Severity::error, document_.place(line), std::move(message), std::move(hint)});
  }

  const Document& document_;
  Findings& findings_;
  ComputeSpec& spec_;
};

}  // namespace

const KeyTable& compute_keys() {
  static const KeyTable table(kComputeDialect);
  return table;
}

Result<std::string> vm_priority_from(std::string_view word) {
  std::string plain;
  for (const char c : word) {
    if (c != '_') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  if (plain == "dedicated" || plain == "lowpriority") return plain;
  return fail(ErrorKind::invalid, "'" + std::string(word) + "' is not known",
              "It is dedicated or low_priority.");
}

Result<ComputeFile> load_compute(const ComputeAsk& ask, ComputeSpec before) {
  ComputeFile found{.spec = std::move(before), .warnings = {}};
  Document document;
  document.root.kind = Node::Kind::map;
  if (!ask.file.empty()) {
    TRY_SET(document, read_document(ask.file));
  }
  for (const std::string& assignment : ask.sets) TRY(apply_override(document, assignment));
  Findings findings;
  if (document.root.is_map()) {
    compute_keys().check(document, document.root, findings);
    ComputeReader(document, findings, found.spec).read();
  } else {
    const bool empty = document.root.is_null();
    findings.push_back({Severity::error,
                        document.place(1),
                        empty ? "is empty" : "must be a map of keys and values",
                        {}});
  }
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  found.warnings = warnings_of(findings);
  return found;
}

}  // namespace trainyard::dialects
