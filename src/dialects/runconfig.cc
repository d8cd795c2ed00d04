#include "dialects/runconfig.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/id.h"
#include "base/text.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

constexpr int64_t kSecondsMax = 10LL * 365 * 24 * 3600;
constexpr int64_t kCountMax = 100'000;
constexpr std::string_view kEnvironment = "environment";

// A runconfig, with the file that its `environment` may name.
struct Sources {
  Document main;
  std::optional<Document> environment;
  Node whole;  // Both in one.

  std::string place(std::string_view path) const {
    const Node* node = at(whole, path);
    if (node == nullptr) return main.file;
    const bool elsewhere = environment && path.starts_with("environment.");
    return (elsewhere ? *environment : main).place(node->key_line);
  }
};

std::string lower(std::string_view text) {
  std::string small;
  for (const char c : text) small.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c);
  return small;
}

// Makes a spec of what the file says. What is wrong with it goes to the findings; the table has
// spoken about types before, so that a wrong one is passed over here.
class Interpreter {
 public:
  Interpreter(const Sources& sources, Findings& findings)
      : sources_(sources), findings_(findings) {}

  void interpret(Runconfig& into, bool has_words) {
    spec_ = &into.spec;
    target();
    spec_->display_name = text("jobName").value_or("");
    spec_->time_limit_s = whole("maxRunDurationSeconds", 1, kSecondsMax).value_or(0);
    spec_->priority = priority();
    spec_->nodes = static_cast<int>(whole("nodeCount", 1, kCountMax).value_or(1));
    spec_->keep_outputs = flag("history.outputCollection").value_or(true);
    variables("environment.environmentVariables");
    variables("environmentVariables");
    registered();
    framework();
    communicator();
    if (!has_words) command(into);
  }

  // The Python that runs the script.
  std::string interpreter(Runconfig& into) const {
    constexpr std::string_view kPython = "python";
    const bool own = flag("environment.python.userManagedDependencies").value_or(false);
    std::string path = text("environment.python.interpreterPath").value_or("");
    if (!own || path.empty()) path = kPython;
    into.any_python = path == kPython;
    return path;
  }

 private:
  // ---- values, where they are there and of their type ----

  std::optional<std::string> text(std::string_view path) const {
    const Node* node = at(sources_.whole, path);
    if (node == nullptr || !node->is_scalar() || node->text.empty()) return std::nullopt;
    return node->text;
  }

  std::optional<bool> flag(std::string_view path) const {
    const Node* node = at(sources_.whole, path);
    return node == nullptr ? std::nullopt : as_bool(*node);
  }

  std::optional<int64_t> whole(std::string_view path, int64_t low, int64_t high) {
    const Node* node = at(sources_.whole, path);
    const auto value = node == nullptr ? std::nullopt : as_int(*node);
    if (!value) return std::nullopt;
    if (*value >= low && *value <= high) return value;
    error(path,
          std::string(path) + ": must be " + std::to_string(low) + " to " + std::to_string(high));
    return std::nullopt;
  }

  std::vector<std::string> texts(std::string_view path) const {
    std::vector<std::string> words;
    const Node* node = at(sources_.whole, path);
    if (node == nullptr || !node->is_list()) return words;
    for (const Node& item : node->children) words.push_back(item.text);
    return words;
  }

  // ---- keys ----

  void target() {
    spec_->target = text("target").value_or("local");
    if (const Status good = check_name(spec_->target, "target"); !good) {
      return error("target", good.error().message, good.error().hint);
    }
    const std::string word = lower(spec_->target);
    if (word != "amlcompute" && word != "containerinstance") return;
    error("target", "target: '" + spec_->target + "' comes with a later version");
  }

  Priority priority() {
    const int64_t value = whole("priority", INT32_MIN, INT32_MAX).value_or(0);
    return value == 0 ? Priority::normal : value < 0 ? Priority::low : Priority::high;
  }

  void variables(std::string_view path) {
    const Node* map = at(sources_.whole, path);
    if (map == nullptr || !map->is_map()) return;
    for (const Node& variable : map->children) {
      const std::string at_variable = std::string(path) + "." + variable.key;
      if (variable.key.empty() || variable.key.find('=') != std::string::npos) {
        error(path, at_variable + ": a variable's name has no '=' and is not empty");
      } else if (variable.is_scalar() || variable.is_null()) {
        spec_->environment_variables[variable.key] = variable.text;
      }
    }
  }

  // A name without a word on what is in it means an environment kept elsewhere.
  void registered() {
    const bool named = text("environment.name").has_value();
    const bool defined = at(sources_.whole, "environment.python") != nullptr ||
                         at(sources_.whole, "environment.docker") != nullptr;
    if (!named || defined) return;
    error("environment.name", "environment.name: registered environments come with a later version",
          "Until then leave it out, and the Python that is there is used.");
  }

  void framework() {
    one_of("framework", {"Python", "PyTorch", "TensorFlow", "CNTK"},
           {"PySpark", "PySparkInteractive", "TensorFlowParameterServer", "PythonMpi",
            "PythonIntelMpi"});
  }

  void communicator() {
    const std::string word =
        one_of("communicator", {"None", "Nccl", "Gloo"},
               {"ParameterServer", "OpenMpi", "IntelMpi", "Mpi", "ParallelTask"});
    if (word != "nccl" && word != "gloo") return;
    spec_->distribution = "pytorch";
    const int64_t nodes = whole("pytorch.nodeCount", 1, kCountMax).value_or(1);
    if (spec_->nodes > 1 && nodes > 1 && nodes != spec_->nodes) {
      error("pytorch.nodeCount", "pytorch.nodeCount: is not what nodeCount says");
    }
    spec_->nodes = std::max(spec_->nodes, static_cast<int>(nodes));
    const int64_t total = whole("pytorch.processCount", 1, kCountMax).value_or(spec_->nodes);
    if (total % spec_->nodes != 0) {
      error("pytorch.processCount", "pytorch.processCount: " + std::to_string(total) +
                                        " processes cannot be shared out evenly among " +
                                        std::to_string(spec_->nodes) + " nodes");
    }
    spec_->processes_per_node = static_cast<int>(std::max<int64_t>(1, total / spec_->nodes));
  }

  void command(Runconfig& into) {
    const Node* command = at(sources_.whole, "command");
    const bool has_command =
        command != nullptr &&
        !(command->is_scalar() ? command->text.empty() : command->children.empty());
    std::string script = text("script").value_or("");
    std::vector<std::string> arguments = texts("arguments");
    std::string_view said = "script";
    if (const std::vector<std::string> words = texts("argumentVector");
        script.empty() && !words.empty()) {
      script = words.front();
      arguments.assign(words.begin() + 1, words.end());
      said = "argumentVector";
    }
    if (has_command && !script.empty()) {
      error("command", "command: " + std::string(said) + " on line " +
                           std::to_string(at(sources_.whole, said)->key_line) +
                           " says what to run too; keep one of them");
      return;
    }
    if (has_command) return plain_command(*command);
    for (const std::string& word : arguments) {
      if (!word.starts_with("DatasetConsumptionConfig:")) continue;
      error("arguments", "arguments: '" + word + "' comes with a later version (datasets)");
    }
    if (script.empty()) return;
    spec_->form = CommandForm::expand;
    spec_->command = {interpreter(into), script};
    spec_->command.insert(spec_->command.end(), arguments.begin(), arguments.end());
  }

  void plain_command(const Node& command) {
    if (command.is_scalar()) {
      spec_->form = CommandForm::shell;
      spec_->command = {command.text};
      return;
    }
    const bool plain = command.is_list() && !command.children.front().text.empty() &&
                       std::all_of(command.children.begin(), command.children.end(),
                                   [](const Node& word) { return word.is_scalar(); });
    if (!plain) return error("command", "command: must be a text or a list of plain values");
    spec_->form = CommandForm::expand;
    for (const Node& word : command.children) spec_->command.push_back(word.text);
  }

  // ---- words ----

  // The word in small letters; empty when it is none of those that work.
  std::string one_of(std::string_view path, std::vector<std::string> work,
                     std::vector<std::string> later) {
    const auto word = text(path);
    if (!word) return {};
    const auto is_word = [&](const std::string& known) { return lower(known) == lower(*word); };
    if (std::any_of(work.begin(), work.end(), is_word)) return lower(*word);
    if (std::any_of(later.begin(), later.end(), is_word)) {
      error(path, std::string(path) + ": '" + *word + "' comes with a later version");
      return {};
    }
    std::string message = std::string(path) + ": '" + word->substr(0, 80) + "' is not known";
    const std::string hint = "Known are: " + join(work, ", ") + ".";
    work.insert(work.end(), later.begin(), later.end());
    const std::string near = nearest(*word, work);
    if (!near.empty()) message += "; did you mean '" + near + "'?";
    error(path, std::move(message), hint);
    return {};
  }

  void error(std::string_view path, std::string message, std::string hint = {}) {
    findings_.push_back(
        {Severity::error, sources_.place(path), std::move(message), std::move(hint)});
  }

  const Sources& sources_;
  Findings& findings_;
  RunSpec* spec_ = nullptr;
};

// ---- the file that `environment` names ----

// Takes the path out of the document, so that the table does not stumble over it.
std::string take_environment_path(Document& main) {
  Node* node = main.root.find(kEnvironment);
  if (node == nullptr || !node->is_scalar()) return {};
  std::string path = std::move(node->text);
  node->text.clear();
  node->kind = Node::Kind::null;
  return path;
}

Result<Document> read_environment(const std::string& path, const fs::path& project,
                                  const Document& main) {
  const fs::path beside = fs::path(main.file).parent_path();
  std::error_code ignored;
  for (const fs::path& folder : {project, beside}) {
    if (fs::exists(folder / path, ignored)) return read_document(folder / path);
  }
  const Node* node = main.root.find(kEnvironment);
  return fail(ErrorKind::invalid,
              main.place(node->key_line) + ": environment: there is no file '" + path + "'",
              "It is looked for in the project and beside the run configuration.");
}

void check_environment(const Document& environment, const Node& whole, Findings& findings) {
  if (environment.root.find("dependencies") != nullptr) {
    findings.push_back(
        {Severity::error, environment.place(1),
         "is a conda file; conda environments come with a later version",
         "Until then leave `environment` out, and the Python that is there is used."});
    return;
  }
  runconfig_keys().check(environment, whole, findings, kEnvironment);
}

// ---- the whole of it ----

void check_root(const Document& document, Findings& findings) {
  if (document.root.is_map() || document.root.is_null()) return;
  findings.push_back({Severity::error, document.place(1), "must be a map of keys and values", {}});
}

// Spells, composes and checks; interpreting comes next.
void check_sources(Sources& sources, Findings& findings) {
  check_root(sources.main, findings);
  sources.whole = sources.main.root;
  if (sources.environment) {
    check_root(*sources.environment, findings);
    runconfig_keys().spell(*sources.environment, findings, kEnvironment);
    Node* place = sources.whole.find(kEnvironment);
    place->kind = sources.environment->root.kind;
    place->children = sources.environment->root.children;
  }
  runconfig_keys().check(sources.main, sources.whole, findings);
  if (sources.environment) check_environment(*sources.environment, sources.whole, findings);
}

void collect_places(const Sources& sources, const Node& node, const std::string& path,
                    std::map<std::string, std::string>& places) {
  for (const Node& child : node.children) {
    if (child.key.empty()) continue;
    const std::string below = path.empty() ? child.key : path + "." + child.key;
    if (const Node* known = at(sources.whole, below)) {
      places[below] = sources.place(below);
      if (known->is_map()) collect_places(sources, child, below, places);
    }
  }
}

Status check_script(const Runconfig& runconfig, const std::string& script) {
  const auto place = runconfig.places.find("script");
  const std::string prefix = place == runconfig.places.end() ? "" : place->second + ": ";
  const fs::path path(script);
  const fs::path inside = path.lexically_normal();
  const std::string folder = runconfig.source.lexically_normal().string();
  if (path.is_absolute() || inside.begin()->string() == "..") {
    return fail(ErrorKind::invalid, prefix + "script '" + script + "' is not within " + folder,
                "Give it from the source folder, which is what a run takes along.");
  }
  std::error_code ignored;
  if (fs::is_regular_file(runconfig.source / path, ignored)) return {};
  return fail(ErrorKind::invalid, prefix + "script '" + script + "' is not in " + folder,
              "It is looked for in the source folder: --source-directory, else --path.");
}

// The script's name, as far as the command is one of ours.
Status finish(Runconfig& runconfig, const RunconfigAsk& ask, std::string interpreter) {
  RunSpec& spec = runconfig.spec;
  const bool is_list = spec.form == CommandForm::expand && runconfig.places.contains("command");
  if (!ask.words.empty()) {
    runconfig.places.erase("script");
    spec.form = CommandForm::expand;
    spec.command = {std::move(interpreter)};
    spec.command.insert(spec.command.end(), ask.words.begin(), ask.words.end());
  } else if (spec.command.empty()) {
    const std::string file = runconfig.file.empty() ? "" : runconfig.file.string() + ": ";
    return fail(ErrorKind::invalid, file + "says neither script nor command",
                "Put the script on the command line, as in: trainyard run submit-script -c NAME "
                "train.py");
  } else if (is_list || spec.form == CommandForm::shell) {
    return {};
  }
  return check_script(runconfig, spec.command[1]);
}

}  // namespace

Result<Runconfig> load_runconfig(const RunconfigAsk& ask) {
  Runconfig runconfig;
  runconfig.source = ask.source.empty() ? ask.project : ask.source;
  Sources sources;
  Findings findings;
  if (!ask.name.empty()) {
    auto file = find_runconfig(runconfig.source, ask.name);
    // Where the code lies comes first; the project is the other place it may be kept.
    if (!file && file.error().kind == ErrorKind::not_found && !ask.source.empty()) {
      if (auto other = find_runconfig(ask.project, ask.name)) file = std::move(other);
    }
    TRY_SET(runconfig.file, std::move(file));
    TRY_SET(sources.main, read_document(runconfig.file));
    runconfig_keys().spell(sources.main, findings);
    if (const std::string path = take_environment_path(sources.main); !path.empty()) {
      TRY_SET(sources.environment, read_environment(path, ask.project, sources.main));
    }
  }
  check_sources(sources, findings);
  Interpreter interpreter(sources, findings);
  interpreter.interpret(runconfig, !ask.words.empty());
  collect_places(sources, sources.whole, "", runconfig.places);
  if (has_errors(findings)) return std::unexpected(as_error(findings));
  runconfig.warnings = warnings_of(findings);
  if (!ask.target.empty()) {
    TRY(check_name(ask.target, "target"));
    runconfig.spec.target = ask.target;
    runconfig.places.erase("target");
  }
  TRY(finish(runconfig, ask, ask.words.empty() ? "" : interpreter.interpreter(runconfig)));
  return runconfig;
}

Findings validate_runconfig(std::string_view text, std::string file) {
  Findings findings;
  Sources sources;
  auto document = parse_document(text, std::move(file));
  if (!document) {
    findings.push_back({Severity::error, "", document.error().message, document.error().hint});
    return findings;
  }
  sources.main = *std::move(document);
  runconfig_keys().spell(sources.main, findings);
  take_environment_path(sources.main);
  check_sources(sources, findings);
  Runconfig runconfig;
  Interpreter(sources, findings).interpret(runconfig, false);
  return findings;
}

}  // namespace trainyard::dialects
