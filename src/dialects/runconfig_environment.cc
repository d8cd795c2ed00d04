#include "dialects/runconfig_environment.h"

#include <algorithm>

#include "base/text.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

// Names that tools write into every file.
bool is_default_name(std::string_view name) {
  return name == "default-environment" || name == "project_environment";
}

class Interpreter {
 public:
  Interpreter(const Sources& sources, const std::vector<fs::path>& folders, Findings& findings,
              EnvironmentDraft& into)
      : sources_(sources),
        folders_(folders),
        findings_(findings),
        into_(into),
        environment_(into.environment) {}

  void interpret() {
    if (named()) return arguments();
    const bool container = in_container();
    if (container) registry();
    const bool own = flag("environment.python.userManagedDependencies").value_or(false);
    if (!own) {
      packages();
    } else if (!container) {
      const std::string path = text("environment.python.interpreterPath");
      if (path != "python") environment_.interpreter = path;
    }
    arguments();
  }

 private:
  std::string text(std::string_view path) const {
    const Node* node = at(sources_.whole, path);
    return node != nullptr && node->is_scalar() ? node->text : "";
  }
  std::optional<bool> flag(std::string_view path) const {
    const Node* node = at(sources_.whole, path);
    return node == nullptr ? std::nullopt : as_bool(*node);
  }
  std::vector<std::string> texts(std::string_view path) const {
    std::vector<std::string> words;
    const Node* node = at(sources_.whole, path);
    if (node == nullptr || !node->is_list()) return words;
    for (const Node& item : node->children) words.push_back(item.text);
    return words;
  }

  // A name without a word on what is in it means an environment kept elsewhere.
  bool named() {
    const std::string name = text("environment.name");
    const bool defined = at(sources_.whole, "environment.python") != nullptr ||
                         at(sources_.whole, "environment.docker") != nullptr;
    if (name.empty() || defined || is_default_name(name)) return false;
    auto parsed = parse_environment_name(name);
    if (!parsed) {
      error("environment.name", "environment.name: " + parsed.error().message, parsed.error().hint);
      return true;
    }
    environment_.name = parsed->name;
    environment_.version = parsed->version;
    const std::string version = text("environment.version");
    if (!version.empty() && version != kLatest) environment_.version = version;
    return true;
  }

  bool in_container() {
    const bool on =
        flag("docker.useDocker").value_or(flag("environment.docker.enabled").value_or(false));
    if (!on) return false;
    Recipe& recipe = environment_.recipe;
    recipe.image = text("environment.docker.baseImage");
    const std::string dockerfile = text("environment.docker.baseDockerfile");
    if (!recipe.image.empty() && !dockerfile.empty()) {
      error("environment.docker.baseDockerfile",
            "environment.docker.baseDockerfile: there is a baseImage too; keep one of them");
    }
    if (recipe.image.empty() && dockerfile.empty()) {
      const std::string_view key =
          flag("docker.useDocker") ? "docker.useDocker" : "environment.docker.enabled";
      findings_.push_back({Severity::warning,
                           sources_.place(key),
                           std::string(key) +
                               ": no image is named (environment.docker.baseImage); the run is a "
                               "process of the machine itself",
                           {}});
      return false;
    }
    recipe.kind = EnvironmentKind::container;
    if (!dockerfile.empty()) read_dockerfile(dockerfile);
    environment_.shm_size = text("docker.shmSize");
    if (environment_.shm_size.empty()) {
      environment_.shm_size = text("environment.docker.shmSize");
    }
    return true;
  }

  // Its text, or the path of one.
  void read_dockerfile(const std::string& given) {
    constexpr std::string_view kKey = "environment.docker.baseDockerfile";
    if (given.find('\n') != std::string::npos || given.starts_with("FROM ")) {
      environment_.recipe.dockerfile = given;
      return;
    }
    if (folders_.empty()) return;
    const fs::path file = find(given);
    if (file.empty()) return missing(kKey, given);
    auto bytes = read_file(file);
    if (!bytes) return error(kKey, std::string(kKey) + ": " + bytes.error().message);
    environment_.recipe.dockerfile = *std::move(bytes);
  }

  void registry() {
    constexpr std::string_view kKey = "environment.docker.baseImageRegistry";
    const std::string key(kKey);
    environment_.registry.address = text(key + ".address");
    environment_.registry.username = text(key + ".username");
    environment_.registry.secret = text(key + ".secret");
    into_.password = text(key + ".password");
    if (!into_.password.empty() && environment_.registry.address.empty()) {
      error(key + ".password", key + ".password: of which registry? There is no address");
    }
  }

  void packages() {
    for (const char* key : {"environment.python.condaDependenciesFile", "condaDependenciesFile"}) {
      const std::string path = text(key);
      if (!path.empty() && add_file(key, path, add_conda)) break;
    }
    const Node* inline_conda = at(sources_.whole, "environment.python.condaDependencies");
    if (inline_conda != nullptr && inline_conda->is_map()) {
      said(add_conda(document(), *inline_conda, environment_, warnings_));
    }
    const std::string requirements = text("environment.python.requirementsFile");
    if (!requirements.empty()) {
      add_file("environment.python.requirementsFile", requirements, add_requirements);
    }
  }

  bool add_file(std::string_view key, const std::string& given,
                Status (*add)(const fs::path&, Environment&, Warnings&)) {
    if (folders_.empty()) return true;
    const fs::path file = find(given);
    if (file.empty()) {
      missing(key, given);
      return true;
    }
    said(add(file, environment_, warnings_));
    return true;
  }

  void said(const Status& status) {
    for (std::string& warning : warnings_) {
      findings_.push_back({Severity::warning, "", std::move(warning), {}});
    }
    warnings_.clear();
    if (status) return;
    findings_.push_back({Severity::error, "", status.error().message, status.error().hint});
  }

  void arguments() {
    environment_.arguments = texts("docker.arguments");
    if (environment_.arguments.empty()) {
      environment_.arguments = texts("environment.docker.arguments");
    }
    if (environment_.recipe.kind != EnvironmentKind::container) leave_out_windows();
  }

  // Templates have such a folder beside docker that is off; nothing was done with it ever.
  void leave_out_windows() {
    std::vector<std::string>& words = environment_.arguments;
    for (size_t i = 0; i < words.size(); ++i) {
      std::string_view value = words[i];
      const bool apart = value == "-v" || value == "--volume";
      if (apart && i + 1 < words.size()) value = words[i + 1];
      for (const std::string_view flag : {"--volume=", "--volume ", "-v "}) {
        if (value.starts_with(flag)) value.remove_prefix(flag.size());
      }
      if (value.size() < 3 || value.substr(1, 2) != ":\\") continue;
      const std::string_view key = at(sources_.whole, "docker.arguments") != nullptr
                                       ? "docker.arguments"
                                       : "environment.docker.arguments";
      findings_.push_back({Severity::warning,
                           sources_.place(key),
                           std::string(key) + ": '" + std::string(value) +
                               "' is a folder of Windows; it is left out",
                           {}});
      const auto first = words.begin() + static_cast<std::ptrdiff_t>(i);
      words.erase(first, first + (apart ? 2 : 1));
      --i;
    }
  }

  fs::path find(const std::string& given) const {
    std::error_code ignored;
    for (const fs::path& folder : folders_) {
      const fs::path path = (folder / given).lexically_normal();
      if (fs::is_regular_file(path, ignored)) return path;
    }
    return {};
  }

  const Document& document() const {
    return sources_.environment ? *sources_.environment : sources_.main;
  }

  void missing(std::string_view key, const std::string& given) {
    error(key, std::string(key) + ": there is no file '" + given + "'",
          "It is looked for in the project and beside the file that names it.");
  }
  void error(std::string_view path, std::string message, std::string hint = {}) {
    findings_.push_back(
        {Severity::error, sources_.place(path), std::move(message), std::move(hint)});
  }

  const Sources& sources_;
  const std::vector<fs::path>& folders_;
  Findings& findings_;
  EnvironmentDraft& into_;
  Environment& environment_;
  Warnings warnings_;
};

}  // namespace

void interpret_environment(const Sources& sources, const std::vector<fs::path>& folders,
                           Findings& findings, EnvironmentDraft& into) {
  Interpreter(sources, folders, findings, into).interpret();
}

}  // namespace trainyard::dialects
