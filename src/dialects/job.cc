#include "dialects/job.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/text.h"
#include "dialects/environment_file.h"
#include "dialects/expressions.h"
#include "dialects/file_kind.h"
#include "dialects/overrides.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

constexpr int64_t kJobSecondsMax = 10LL * 365 * 24 * 3600;
constexpr int64_t kJobCountMax = 100'000;
constexpr int64_t kRanksMax = 1024;

// Makes a spec of what the file says. What is wrong with it goes to the findings; the table has
// spoken about types before, so that a wrong one is passed over here.
class JobInterpreter {
 public:
  JobInterpreter(const Document& document, Findings& findings, Job& job)
      : document_(document), findings_(findings), job_(job), spec_(job.spec) {}

  void interpret() {
    type();
    id();
    spec_.display_name = text("display_name");
    spec_.experiment = text("experiment_name");
    spec_.description = text("description");
    spec_.tags = texts("tags");
    spec_.properties = texts("properties");
    compute();
    resources();
    distribution();
    priority();
    spec_.time_limit_s = whole("limits.timeout", 1, kJobSecondsMax).value_or(0);
    inputs();
    outputs();
    command();
    spec_.preparation = text("preparation");
    variables();
  }

 private:
  // ---- values, where they are there and of their type ----

  std::string text(std::string_view path) const {
    const Node* node = at(document_.root, path);
    return node != nullptr && node->is_scalar() ? node->text : "";
  }

  std::optional<int64_t> whole(std::string_view path, int64_t low, int64_t high) {
    const Node* node = at(document_.root, path);
    const auto value = node == nullptr ? std::nullopt : as_int(*node);
    if (!value || (*value >= low && *value <= high)) return value;
    error(*node,
          std::string(path) + ": must be " + std::to_string(low) + " to " + std::to_string(high));
    return std::nullopt;
  }

  std::map<std::string, std::string> texts(std::string_view path) const {
    std::map<std::string, std::string> found;
    const Node* map = at(document_.root, path);
    if (map == nullptr || !map->is_map()) return found;
    for (const Node& child : map->children) {
      if (child.is_scalar() || child.is_null()) found[child.key] = child.text;
    }
    return found;
  }

  bool has_value(std::string_view path) const { return at(document_.root, path) != nullptr; }

  // ---- keys ----

  void type() {
    const Node* node = at(document_.root, "type");
    if (node == nullptr || !node->is_scalar()) return;
    word_of(*node, "type", {"command"}, {});
  }

  void id() {
    const std::string name = text("name");
    if (name.empty() || !job_.id.empty()) return;
    if (const Status good = check_name(name, "name"); !good) {
      return error(*at(document_.root, "name"), good.error().message, good.error().hint);
    }
    job_.id = RunId{name};
    job_.named = true;
  }

  void compute() {
    constexpr std::string_view kPrefix = "azureml:";
    std::string name = text("compute");
    if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
    // The long form, /subscriptions/…/computes/NAME.
    if (name.starts_with('/')) name.erase(0, name.rfind('/') + 1);
    if (name.empty()) return;
    spec_.target = name;
    if (const Status good = check_name(name, "compute"); !good) {
      error(*at(document_.root, "compute"), good.error().message, good.error().hint);
    }
  }

  void resources() {
    spec_.nodes = static_cast<int>(whole("resources.instance_count", 1, kJobCountMax).value_or(1));
    spec_.resources.cpus = static_cast<int>(whole("resources.cpus", 1, kJobCountMax).value_or(1));
    spec_.resources.gpus = static_cast<int>(whole("resources.gpus", 0, kJobCountMax).value_or(0));
    const std::string memory = text("resources.memory");
    if (memory.empty()) return;
    const auto size = parse_size(memory, "resources.memory");
    if (!size) return error(*at(document_.root, "resources.memory"), size.error().message);
    spec_.resources.memory_bytes = *size;
  }

  void distribution() {
    const Node* section = at(document_.root, "distribution");
    if (section == nullptr || !section->is_map() || section->children.empty()) return;
    const Node* type = at(*section, "type");
    if (type == nullptr) return error(*section, "distribution.type: is missing");
    if (!type->is_scalar()) return;
    const auto word =
        word_of(*type, "distribution.type", {"pytorch", "mpi", "tensorflow"}, {"ray"});
    if (!word) return;
    spec_.distribution = *word;
    if (*word == "tensorflow") return tensorflow();
    const auto ranks = whole("distribution.process_count_per_instance", 1, kRanksMax);
    spec_.processes_per_node = static_cast<int>(ranks.value_or(1));
  }

  void tensorflow() {
    const int workers =
        static_cast<int>(whole("distribution.worker_count", 1, kJobCountMax).value_or(spec_.nodes));
    if (workers % spec_.nodes != 0) {
      error(*at(document_.root, "distribution.worker_count"),
            "distribution.worker_count: " + std::to_string(workers) +
                " workers cannot be shared out evenly among " + std::to_string(spec_.nodes) +
                " nodes");
    }
    spec_.processes_per_node = std::max(1, workers / spec_.nodes);
    spec_.parameter_servers =
        static_cast<int>(whole("distribution.parameter_server_count", 0, kRanksMax).value_or(0));
  }

  void priority() {
    const Node* node = at(document_.root, "queue_settings.priority");
    if (node == nullptr || !node->is_scalar()) return;
    const auto word = word_of(*node, "queue_settings.priority", {"low", "medium", "high"}, {});
    if (word == "low") spec_.priority = Priority::low;
    if (word == "high") spec_.priority = Priority::high;
  }

  void inputs() {
    const Node* section = at(document_.root, "inputs");
    if (section == nullptr || !section->is_map()) return;
    for (const Node& input : section->children) {
      const std::string path = "inputs." + input.key;
      // Declared, even when it is refused below: its uses are no second mistake.
      spec_.parameters[input.key];
      if (input.is_scalar()) {
        spec_.parameters[input.key] = input.text;
      } else if (input.is_null()) {
        error(input, path + ": has no value", "Give it one here, or by --set " + path + "=VALUE.");
      } else if (input.is_map()) {
        typed_input(input, path);
      } else {
        error(input, path + ": must be a plain value or a map");
      }
    }
  }

  // {type: number, value: 0.1}
  void typed_input(const Node& input, const std::string& path) {
    const Node* type = at(input, "type");
    const std::string name = type != nullptr ? type->text : "";
    const bool is_data =
        name.empty() || name.starts_with("uri_") || name == "mltable" || name.ends_with("_model");
    if (is_data) {
      return error(input, path + ": data inputs come with a later version");
    }
    const auto known =
        word_of(*type, path + ".type", {"number", "integer", "boolean", "string"}, {});
    if (!known) return;
    if (at(input, "path") != nullptr || at(input, "mode") != nullptr) {
      return error(input, path + ": is a " + *known + ", which has no path or mode");
    }
    const Node* value = at(input, "value");
    if (value == nullptr) value = at(input, "default");
    if (value == nullptr) {
      return error(input, path + ": has no value",
                   "Give it one here, or by --set " + path + ".value=VALUE.");
    }
    const bool fits =
        value->is_scalar() &&
        (*known == "string" || (*known == "number" && as_number(*value)) ||
         (*known == "integer" && as_int(*value)) || (*known == "boolean" && as_bool(*value)));
    if (!fits) return error(*value, path + ": is not of the type " + *known);
    spec_.parameters[input.key] = value->text;
  }

  void outputs() {
    const Node* section = at(document_.root, "outputs");
    if (section == nullptr || !section->is_map()) return;
    for (const Node& output : section->children) {
      const std::string path = "outputs." + output.key;
      spec_.outputs[output.key];
      const bool strays = output.key.find("..") != std::string::npos;
      if (const Status good = check_name(output.key, "output"); !good || strays) {
        error(output, path + ": an output's name becomes a folder's name",
              "Use letters, digits, '_' and '-'.");
        continue;
      }
      if (!output.is_map() && !output.is_null()) {
        error(output, path + ": must be empty or a map");
        continue;
      }
      const Node* type = at(output, "type");
      const bool file = type != nullptr && type->text == "uri_file";
      if (type != nullptr && type->is_scalar()) {
        word_of(*type, path + ".type",
                {"uri_folder", "uri_file", "mltable", "mlflow_model", "custom_model"}, {});
      }
      spec_.outputs[output.key] = "outputs/" + output.key + (file ? "" : "/");
    }
  }

  void command() {
    const Node* node = at(document_.root, "command");
    if (node == nullptr || (node->is_scalar() && trim(node->text).empty())) {
      // An image has one of its own.
      if (has_value("environment.image") || has_value("environment.build")) return;
      const Node* given = document_.root.find("command");
      return error(given != nullptr ? *given : first(), "command: is missing",
                   "It may be left out only with an image or a Dockerfile.");
    }
    if (!node->is_scalar()) return;
    spec_.form = CommandForm::shell;
    spec_.command = {fill(*node, node->text, "command")};
    if (has_expressions(node->text)) spec_.command_template = node->text;
  }

  void variables() {
    spec_.environment_variables = texts("environment_variables");
    for (auto& [name, value] : spec_.environment_variables) {
      const Node& node = *at(document_.root, "environment_variables")->find(name);
      if (name.empty() || name.find('=') != std::string::npos) {
        error(node, "environment_variables: a variable's name has no '=' and is not empty");
      }
      value = fill(node, value, "environment_variables." + name);
    }
  }

  // ---- words and expressions ----

  std::string fill(const Node& node, const std::string& text, const std::string& path) {
    auto filled = fill_in(text, {spec_.parameters, spec_.outputs, job_.id});
    if (filled) return *std::move(filled);
    const Node* section = at(document_.root, filled.error().section);
    if (section != nullptr && !section->is_map()) return {};  // Its type is the mistake.
    int line = node.line;
    if (node.block) {
      // The text begins on the line after the '|'.
      const auto end = text.begin() + static_cast<std::ptrdiff_t>(filled.error().offset);
      line += 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
    }
    findings_.push_back({Severity::error, document_.place(line),
                         path + ": " + filled.error().message, filled.error().hint});
    return {};
  }

  // The word, when it is one of those that work.
  std::optional<std::string> word_of(const Node& node, const std::string& path,
                                     std::vector<std::string> work,
                                     std::vector<std::string> later) {
    std::string word;
    for (const char c : node.text) word.push_back(static_cast<char>(std::tolower(c)));
    if (std::find(work.begin(), work.end(), word) != work.end()) return word;
    if (std::find(later.begin(), later.end(), word) != later.end()) {
      error(node, path + ": '" + node.text + "' comes with a later version");
      return std::nullopt;
    }
    std::string message = path + ": '" + node.text.substr(0, 80) + "' is not known";
    const std::string hint = "Known: " + join(work, ", ") + ".";
    work.insert(work.end(), later.begin(), later.end());
    const std::string near = nearest(word, work);
    if (!near.empty()) message += "; did you mean '" + near + "'?";
    error(node, std::move(message), hint);
    return std::nullopt;
  }

  const Node& first() const { return document_.root; }

  void error(const Node& node, std::string message, std::string hint = {}) {
    const int line = node.key_line != 0 ? node.key_line : std::max(1, node.line);
    findings_.push_back(
        {Severity::error, document_.place(line), std::move(message), std::move(hint)});
  }

  const Document& document_;
  Findings& findings_;
  Job& job_;
  RunSpec& spec_;
};

// False when the file is no command job: then nothing else in it is worth checking.
bool check_document(Document& document, const std::vector<std::string>& sets, Findings& findings) {
  for (const std::string& assignment : sets) {
    if (const Status applied = apply_override(document, assignment); !applied) {
      findings.push_back({Severity::error, "", applied.error().message, applied.error().hint});
    }
  }
  if (!document.root.is_map()) {
    const std::string what =
        document.root.is_null() ? "is empty" : "must be a map of keys and values";
    findings.push_back({Severity::error, document.place(1), what, {}});
    return false;
  }
  if (const auto kind = other_kind(document)) {
    findings.push_back(refuse_kind(document, *kind));
    return false;
  }
  job_keys().check(document, document.root, findings);
  return true;
}

// The folder of the code, when there is one and it is there.
void find_code(const Document& document, const fs::path& file, Job& job, Findings& findings) {
  const Node* node = at(document.root, "code");
  if (node == nullptr || !node->is_scalar() || node->text.empty()) return;
  const std::string place = document.place(node->key_line);
  if (node->text.starts_with("azureml:") || node->text.find("://") != std::string::npos) {
    findings.push_back(
        {Severity::error, place, "code: code from elsewhere comes with a later version", {}});
    return;
  }
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  job.code = (folder / node->text).lexically_normal();
  std::error_code ignored;
  if (fs::exists(job.code, ignored)) return;
  findings.push_back({Severity::error, place,
                      "code: '" + node->text + "' is not in " + folder.string(),
                      "The path is from the job file's own folder."});
}

void collect_places(const Document& document, const Node& node, const std::string& path,
                    std::map<std::string, std::string>& places) {
  for (const Node& child : node.children) {
    if (child.key.empty()) continue;
    const std::string below = path.empty() ? child.key : path + "." + child.key;
    places[below] = document.place(child.key_line);
    if (child.is_map()) collect_places(document, child, below, places);
  }
}

}  // namespace

// What it runs in, and how a container of it is started. `folder` empty: no file is looked at.
void find_environment(const Document& document, const fs::path& folder, Job& job,
                      Findings& findings) {
  EnvironmentDraft draft;
  const Node* value = at(document.root, "environment");
  if (value != nullptr) read_environment(document, *value, folder, findings, draft);
  const Node* shm = at(document.root, "resources.shm_size");
  const Node* arguments = at(document.root, "resources.docker_args");
  if (shm != nullptr && shm->is_scalar()) draft.environment.shm_size = shm->text;
  if (arguments != nullptr && arguments->is_scalar()) {
    draft.environment.arguments = {arguments->text};
  } else if (arguments != nullptr) {
    for (const Node& word : arguments->children) draft.environment.arguments.push_back(word.text);
  }
  job.spec.environment = std::move(draft.environment);
  job.build = draft.build;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

Result<Job> load_job(const JobAsk& ask) {
  Job job;
  if (!ask.name.empty()) {
    TRY(check_name(ask.name, "name"));
    job.id = RunId{ask.name};
    job.named = true;
  }
  TRY_SET(Document document, read_document(ask.file));
  Findings findings;
  if (!check_document(document, ask.sets, findings)) {
    return std::unexpected(as_error(findings));
  }
  find_code(document, ask.file, job, findings);
  const std::string name =
      at(document.root, "name") != nullptr ? at(document.root, "name")->text : "";
  if (job.id.empty() && name.empty()) job.id = new_run_id();
  JobInterpreter(document, findings, job).interpret();
  find_environment(document, folder_of(ask.file), job, findings);
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  job.warnings = warnings_of(findings);
  collect_places(document, document.root, "", job.places);
  job.document = std::move(document);
  return job;
}

Findings validate_job(std::string_view text, std::string file,
                      const std::vector<std::string>& sets) {
  Findings findings;
  auto document = parse_document(text, std::move(file));
  if (!document) {
    findings.push_back({Severity::error, "", document.error().message, document.error().hint});
    return findings;
  }
  if (!check_document(*document, sets, findings)) return findings;
  Job job;
  JobInterpreter(*document, findings, job).interpret();
  find_environment(*document, {}, job, findings);
  return findings;
}

}  // namespace trainyard::dialects
