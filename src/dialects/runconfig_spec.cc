#include "dialects/runconfig_spec.h"

#include <algorithm>
#include <vector>

#include "base/id.h"
#include "base/text.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

constexpr int64_t kSecondsMax = 10LL * 365 * 24 * 3600;
constexpr int64_t kCountMax = 100'000;

class SpecInterpreter {
 public:
  SpecInterpreter(const Sources& sources, const RunconfigAsk& ask, Findings& findings,
                  Runconfig& into)
      : sources_(sources), ask_(ask), findings_(findings), into_(into), spec_(into.spec) {}

  void interpret() {
    target();
    spec_.display_name = text("jobName").value_or("");
    spec_.time_limit_s = whole("maxRunDurationSeconds", 1, kSecondsMax).value_or(0);
    spec_.priority = priority();
    spec_.nodes = static_cast<int>(whole("nodeCount", 1, kCountMax).value_or(1));
    spec_.keep_outputs = flag("history.outputCollection").value_or(true);
    variables("environment.environmentVariables");
    variables("environmentVariables");
    if (flag("docker.useDocker").value_or(flag("environment.docker.enabled").value_or(false))) {
      spec_.preparation = text("environment.docker.preparation.commandLine").value_or("");
    }
    framework();
    communicator();
    if (ask_.words.empty()) {
      command();
    } else {
      run_script(ask_.words.front(), {ask_.words.begin() + 1, ask_.words.end()});
    }
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
    if (!ask_.target.empty()) {
      spec_.target = ask_.target;
      return;
    }
    spec_.target = text("target").value_or("local");
    if (const Status good = check_name(spec_.target, "target"); !good) {
      return error("target", good.error().message, good.error().hint);
    }
    const std::string word = lower(spec_.target);
    if (word != "amlcompute" && word != "containerinstance") return;
    error("target", "target: '" + spec_.target + "' comes with a later version");
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
        spec_.environment_variables[variable.key] = variable.text;
      }
    }
  }

  void framework() {
    const std::string word = one_of(
        "framework", {"Python", "PyTorch", "TensorFlow", "CNTK", "PythonMpi", "PythonIntelMpi"},
        {"PySpark", "PySparkInteractive", "TensorFlowParameterServer"});
    if (word.ends_with("mpi")) spec_.distribution = "mpi";
  }

  void communicator() {
    const std::string word = one_of(
        "communicator", {"None", "Nccl", "Gloo", "Mpi", "OpenMpi", "IntelMpi", "ParameterServer"},
        {"ParallelTask"});
    if (word.ends_with("mpi")) return mpi();
    if (word == "parameterserver") return tensorflow();
    if (word == "nccl" || word == "gloo") pytorch();
  }

  void nodes_of(const std::string& path) {
    const int64_t nodes = whole(path, 1, kCountMax).value_or(1);
    if (spec_.nodes > 1 && nodes > 1 && nodes != spec_.nodes) {
      error(path, path + ": is not what nodeCount says");
    }
    spec_.nodes = std::max(spec_.nodes, static_cast<int>(nodes));
  }

  void mpi() {
    spec_.distribution = "mpi";
    nodes_of("mpi.nodeCount");
    const int64_t ranks = whole("mpi.processCountPerNode", 1, kCountMax).value_or(1);
    spec_.processes_per_node = static_cast<int>(ranks);
  }

  void tensorflow() {
    spec_.distribution = "tensorflow";
    share_out("tensorflow.workerCount", "workers");
    const auto servers = whole("tensorflow.parameterServerCount", 0, kCountMax);
    spec_.parameter_servers = static_cast<int>(servers.value_or(1));
  }

  void pytorch() {
    spec_.distribution = "pytorch";
    nodes_of("pytorch.nodeCount");
    share_out("pytorch.processCount", "processes");
  }

  // So many on all nodes together; none is one on each.
  void share_out(const std::string& path, const std::string& what) {
    const int64_t total = whole(path, 1, kCountMax).value_or(spec_.nodes);
    if (total % spec_.nodes != 0) {
      error(path, path + ": " + std::to_string(total) + " " + what +
                      " cannot be shared out evenly among " + std::to_string(spec_.nodes) +
                      " nodes");
    }
    spec_.processes_per_node = static_cast<int>(std::max<int64_t>(1, total / spec_.nodes));
  }

  void command() {
    const Node* command = at(sources_.whole, "command");
    const bool has_command =
        command != nullptr &&
        !(command->is_scalar() ? command->text.empty() : command->children.empty());
    const std::string script = text("script").value_or("");
    const std::vector<std::string> arguments = texts("arguments");
    const std::vector<std::string> vector = texts("argumentVector");
    std::vector<std::string_view> said;  // The keys that say what to run.
    if (has_command) said.push_back("command");
    if (!script.empty() || !arguments.empty()) {
      said.push_back(script.empty() ? "arguments" : "script");
    }
    if (!vector.empty()) said.push_back("argumentVector");
    if (said.size() > 1) {
      return error(said[0], std::string(said[0]) + ": " + std::string(said[1]) + " on line " +
                                std::to_string(at(sources_.whole, said[1])->key_line) +
                                " says what to run too; keep one of them");
    }
    if (has_command) return plain_command(*command);
    for (const std::string& word : arguments) {
      if (!word.starts_with("DatasetConsumptionConfig:")) continue;
      error("arguments", "arguments: '" + word + "' comes with a later version (datasets)");
    }
    if (!vector.empty()) return run_script(vector.front(), {vector.begin() + 1, vector.end()});
    if (!script.empty()) run_script(script, arguments);
  }

  void run_script(const std::string& script, const std::vector<std::string>& arguments) {
    constexpr std::string_view kPython = "python";
    const bool own = flag("environment.python.userManagedDependencies").value_or(false);
    std::string interpreter = text("environment.python.interpreterPath").value_or("");
    if (!own || interpreter.empty()) interpreter = kPython;
    into_.any_python = interpreter == kPython;
    into_.script = script;
    spec_.form = CommandForm::expand;
    spec_.command = {std::move(interpreter), script};
    spec_.command.insert(spec_.command.end(), arguments.begin(), arguments.end());
  }

  void plain_command(const Node& command) {
    if (command.is_scalar()) {
      spec_.form = CommandForm::shell;
      spec_.command = {command.text};
      return;
    }
    const bool plain = command.is_list() && !command.children.front().text.empty() &&
                       std::all_of(command.children.begin(), command.children.end(),
                                   [](const Node& word) { return word.is_scalar(); });
    if (!plain) return error("command", "command: must be a text or a list of plain values");
    spec_.form = CommandForm::expand;
    for (const Node& word : command.children) spec_.command.push_back(word.text);
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
  const RunconfigAsk& ask_;
  Findings& findings_;
  Runconfig& into_;
  RunSpec& spec_;
};

}  // namespace

void interpret(const Sources& sources, const RunconfigAsk& ask, Findings& findings,
               Runconfig& into) {
  SpecInterpreter(sources, ask, findings, into).interpret();
}

}  // namespace trainyard::dialects
