#include "dialects/runconfig_environment.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/text.h"
#include "dialects/conda_place.h"
#include "dialects/scalar.h"

namespace trainyard::dialects {
namespace {

// Names that tools write into every file.
bool is_default_name(std::string_view name) {
  return name == "default-environment" || name == "project_environment";
}

// Whether it takes files of the folder it is built from. Without, that folder is no part of what is
// made: a change of the code makes no new image.
bool copies_files(std::string_view dockerfile) {
  for (const std::string& line : split(dockerfile, '\n')) {
    const std::string_view words = trim(line);
    std::string verb(words.substr(0, words.find_first_of(" \t")));
    for (char& c : verb) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const bool copies = verb == "COPY" || verb == "ADD";
    if (copies && words.find("--from=") == std::string_view::npos) return true;
  }
  return false;
}

class EnvironmentInterpreter {
 public:
  EnvironmentInterpreter(const Sources& sources, const std::vector<fs::path>& folders,
                         Findings& findings, EnvironmentDraft& into)
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
    const std::string path = own ? text("environment.python.interpreterPath") : "";
    if (!own) packages();
    if (own && !container && path != "python") environment_.interpreter = path;
    base_conda(container);
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
    const std::string context = text("environment.docker.buildContext.location");
    if (!recipe.image.empty() && !dockerfile.empty()) {
      error("environment.docker.baseDockerfile",
            "environment.docker.baseDockerfile: there is a baseImage too; keep one of them");
    }
    if (!recipe.image.empty() && !context.empty()) {
      error("environment.docker.buildContext",
            "environment.docker.buildContext: there is a baseImage too; keep one of them");
    }
    if (recipe.image.empty() && dockerfile.empty() && context.empty()) {
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
    if (!context.empty()) read_context(context);
    environment_.shm_size = text("docker.shmSize");
    if (environment_.shm_size.empty()) {
      environment_.shm_size = text("environment.docker.shmSize");
    }
    return true;
  }

  // Its text, or the path of one.
  void read_dockerfile(const std::string& given) {
    constexpr std::string_view kKey = "environment.docker.baseDockerfile";
    const bool written_here = given.find('\n') != std::string::npos || given.starts_with("FROM ");
    if (written_here) environment_.recipe.dockerfile = given;
    if (written_here && !folders_.empty() && copies_files(given)) build_of(folders_.front());
    if (written_here || folders_.empty()) return;
    const fs::path file = find(given);
    if (file.empty()) return missing(kKey, given);
    auto bytes = read_file(file);
    if (!bytes) return error(kKey, std::string(kKey) + ": " + bytes.error().message);
    environment_.recipe.dockerfile = *std::move(bytes);
    if (copies_files(environment_.recipe.dockerfile)) build_of(file.parent_path());
  }

  // A folder; the Dockerfile is in it, or was given beside it.
  void read_context(const std::string& given) {
    constexpr std::string_view kKey = "environment.docker.buildContext.location";
    std::string& dockerfile = environment_.recipe.dockerfile;
    const bool inside = dockerfile.empty();
    if (inside) dockerfile = text("environment.docker.buildContext.dockerfilePath");
    if (dockerfile.empty()) dockerfile = kDockerfile;
    if (folders_.empty()) return;
    std::error_code ignored;
    for (const fs::path& folder : folders_) {
      const fs::path path = (folder / given).lexically_normal();
      if (fs::is_directory(path, ignored)) {
        into_.build = path;
        break;
      }
    }
    if (into_.build.empty()) {
      return error(kKey, std::string(kKey) + ": there is no folder '" + given + "'",
                   "It is looked for in the project and beside the file that names it.");
    }
    if (inside && !is_file(into_.build / dockerfile)) {
      error(kKey,
            std::string(kKey) + ": there is no '" + dockerfile + "' in " + into_.build.string());
    }
  }

  void build_of(const fs::path& folder) { into_.build = folder.empty() ? "." : folder; }

  void registry() {
    constexpr std::string_view kKey = "environment.docker.baseImageRegistry";
    const std::string key(kKey);
    environment_.registry.address = text(key + ".address");
    environment_.registry.username = text(key + ".username");
    environment_.registry.secret = text(key + ".secret");
    into_.password = text(key + ".password");
    join_address();
    if (!into_.password.empty() && environment_.registry.address.empty()) {
      error(key + ".password", key + ".password: of which registry? There is no address");
    }
  }

  // An image without a registry in its name comes from this one. A name's first part is a registry
  // as docker reads it: with a dot or a colon, or "localhost".
  void join_address() {
    std::string_view address = environment_.registry.address;
    for (const std::string_view scheme : {"https://", "http://"}) {
      if (address.starts_with(scheme)) address.remove_prefix(scheme.size());
    }
    while (address.ends_with('/')) address.remove_suffix(1);
    std::string& image = environment_.recipe.image;
    if (address.empty() || image.empty() || image.starts_with('/')) return;
    const size_t slash = image.find('/');
    const std::string_view first = std::string_view(image).substr(0, slash);
    const bool named = slash != std::string::npos &&
                       (first.find_first_of(".:") != first.npos || first == "localhost");
    if (!named) image = std::string(address) + "/" + image;
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

  // Packages go upon it, into a virtual environment; without any it is used as it is.
  void base_conda(bool container) {
    constexpr std::string_view kKey = "environment.python.baseCondaEnvironment";
    const std::string name = text(kKey);
    if (name.empty()) return;
    if (container) return moot(kKey, "the image has a Python of its own");
    if (!environment_.interpreter.empty())
      return moot(kKey, "interpreterPath names another Python");
    Recipe& recipe = environment_.recipe;
    if (!recipe.conda.empty()) {
      return moot(kKey, "packages of conda's own are installed into an environment of their own");
    }
    if (folders_.empty()) return;
    const auto found = find_conda_environment(name, [](const char* variable) {
      const char* value = std::getenv(variable);
      return std::string(value != nullptr ? value : "");
    });
    if (!found) {
      return error(kKey, std::string(kKey) + ": " + found.error().message, found.error().hint);
    }
    const std::string python = *found / "bin" / "python";
    const bool packages = !recipe.requirements.empty();
    recipe.kind = packages ? EnvironmentKind::venv : EnvironmentKind::system;
    recipe.channels.clear();
    recipe.python = packages ? python : "";
    if (!packages) environment_.interpreter = python;
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

  void moot(std::string_view key, std::string_view why) {
    findings_.push_back({Severity::warning,
                         sources_.place(key),
                         std::string(key) + ": has no effect (" + std::string(why) + ")",
                         {}});
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
  EnvironmentInterpreter(sources, folders, findings, into).interpret();
}

}  // namespace trainyard::dialects
