#include "env/build_conda.h"

#include <algorithm>

#include "base/text.h"
#include "env/build_venv.h"
#include "env/conda_packages.h"
#include "env/install.h"
#include "env/lock.h"
#include "env/settle_conda.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

// "name=version=build" is conda's, "name==version" pip's.
bool is_condas(std::string_view line) {
  const size_t equals = line.find('=');
  return equals != std::string_view::npos && line.find('@') == std::string_view::npos &&
         !line.substr(equals + 1).starts_with('=');
}

std::string quoted(const std::string& text) { return wire::dump(wire::Json(text)); }

// The file that it is made of: the lock's packages, or those asked for.
std::string file_of(const Environment& environment) {
  const Recipe& recipe = environment.recipe;
  std::string text = "channels:\n";
  const std::vector<std::string> usual = {"conda-forge"};
  for (const std::string& channel : recipe.channels.empty() ? usual : recipe.channels) {
    text += "  - " + quoted(channel) + "\n";
  }
  text += "dependencies:\n";
  if (!environment.lock.empty()) {
    for (const std::string& line : environment.lock) {
      if (is_condas(line)) text += "  - " + quoted(line) + "\n";
    }
    return text;
  }
  const bool compares = recipe.python.find_first_of("<>!~") == 0;
  text +=
      "  - " +
      quoted(recipe.python.empty() ? "python"
                                   : "python" + std::string(compares ? "" : "=") + recipe.python) +
      "\n";
  for (const std::string& line : recipe.conda) {
    text += "  - " + quoted(parse_requirement(line).text) + "\n";
  }
  return text;
}

// What conda says it has installed: "numpy=1.19.2=py38_0".
Result<std::vector<std::string>> read_conda_lock(const fs::path& root) {
  std::vector<std::string> lines;
  std::error_code error;
  for (fs::directory_iterator list(root / "conda-meta", error), end; !error && list != end;
       list.increment(error)) {
    if (list->path().extension() != ".json") continue;
    TRY_SET(const std::string text, read_file(list->path()));
    TRY_SET(const wire::Json json, wire::parse(text));
    TRY_SET(const std::string name, wire::string_member(json, "name"));
    TRY_SET(const std::string version, wire::string_member(json, "version"));
    TRY_SET(const std::string build, wire::string_member(json, "build"));
    lines.push_back(name + "=" + version + "=" + build);
  }
  if (error) return fail_errno(error.value(), "list " + (root / "conda-meta").string());
  std::ranges::sort(lines);
  return lines;
}

// Where it will be when it is whole: a shelf makes HASH in HASH.new-….
fs::path place_of(const fs::path& folder) {
  const std::string name = folder.filename();
  return folder.parent_path() / name.substr(0, name.find(".new-")) / "root";
}

Result<Realised> without_conda(const Environment& environment, const fs::path& folder,
                               const Settings& settings, Watcher& watcher) {
  TRY_SET(const AsVenv asked, as_venv(environment));
  watcher.line("No conda is here: the packages are taken from Python's own index.");
  if (!asked.left_out.empty()) {
    watcher.line("Not needed there: " + join(asked.left_out, ", "));
  }
  return build_venv(asked.environment, folder, settings, watcher);
}

std::vector<std::string> create_words(const fs::path& conda, const fs::path& root) {
  if (conda.filename() == "micromamba") {
    return {conda, "create", "--yes", "--prefix", root, "--file", "environment.yml"};
  }
  return {conda, "env", "create", "--prefix", root, "--file", "environment.yml"};
}

// The packages of the `pip:` list, into what conda has made.
Status add_python_packages(const Environment& environment, Install install,
                           const Settings& settings, Watcher& watcher) {
  Environment python_part = environment;
  std::erase_if(python_part.lock, is_condas);
  if (!environment.lock.empty() && python_part.lock.empty()) return {};
  const std::vector<std::string> lines = lines_to_install(python_part);
  if (lines.empty()) return {};
  TRY_SET(install.python, find_python(install.root() / "bin" / "python", settings));
  TRY(write_install(python_part, lines, install));
  const fs::path uv = find_program("uv", settings.variables);
  return uv.empty() ? install_by_pip(install, settings, watcher)
                    : install_by_uv(uv, install, settings, watcher);
}

}  // namespace

fs::path find_conda(const Variables& variables) {
  for (const char* name : {"micromamba", "mamba", "conda"}) {
    fs::path found = find_program(name, variables);
    if (!found.empty()) return found;
  }
  return {};
}

Result<Realised> build_conda(const Environment& environment, const fs::path& folder,
                             const Settings& settings, Watcher& watcher) {
  const fs::path conda = find_conda(settings.variables);
  if (conda.empty()) return without_conda(environment, folder, settings, watcher);
  Install install{.folder = folder, .requirements = environment.recipe.requirements, .made = true};
  install.requirements.insert(install.requirements.end(), environment.recipe.conda.begin(),
                              environment.recipe.conda.end());
  Variables variables = plain_variables(settings);
  variables.try_emplace("MAMBA_ROOT_PREFIX", settings.cache / "conda");
  variables.try_emplace("CONDA_PKGS_DIRS", settings.cache / "conda" / "pkgs");
  for (const char* name : {"CONDA_ALWAYS_YES", "MAMBA_ALWAYS_YES", "CONDA_QUIET"}) {
    variables[name] = "true";
  }
  TRY(write_file(folder / "environment.yml", file_of(environment)));
  watcher.progress("resolving");
  const auto all = [](std::string_view) { return true; };
  TRY(run_step({create_words(conda, install.root()), variables, folder}, conda.filename().string(),
               install, watcher, all));
  TRY(add_python_packages(environment, install, settings, watcher));
  Realised realised{.kind = EnvironmentKind::conda, .python = "root/bin/python"};
  TRY_SET(realised.lock, read_conda_lock(install.root()));
  TRY_SET(const std::vector<std::string> installed, read_lock(install.root(), "conda"));
  realised.lock.insert(realised.lock.end(), installed.begin(), installed.end());
  TRY(settle_conda(install.root(), place_of(folder)));
  return realised;
}

}  // namespace trainyard::env
