#include "env/build_conda.h"

#include <algorithm>

#include "base/text.h"
#include "env/build_venv.h"
#include "env/conda_packages.h"
#include "env/install.h"
#include "env/lock.h"
#include "env/settle_conda.h"
#include "model/environment_identity.h"
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
      if (is_condas(line)) text += "  - " + quoted(line.substr(0, line.find(" --hash"))) + "\n";
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

// What conda says it has installed: "numpy=1.19.2=py38_0 --hash=sha256:…".
Result<std::vector<std::string>> read_conda_lock(const fs::path& root) {
  std::vector<std::string> lines;
  std::error_code error;
  if (!is_folder_inside(root, root / "conda-meta")) {
    return fail(ErrorKind::invalid, "the build has left no folder conda-meta");
  }
  for (fs::directory_iterator list(root / "conda-meta", error), end; !error && list != end;
       list.increment(error)) {
    if (list->path().extension() != ".json" || !is_plain_file_inside(root, list->path())) continue;
    TRY_SET(const std::string text, read_file(list->path()));
    TRY_SET(const wire::Json json, wire::parse(text));
    TRY_SET(const std::string name, wire::string_member(json, "name"));
    TRY_SET(const std::string version, wire::string_member(json, "version"));
    TRY_SET(const std::string build, wire::string_member(json, "build"));
    const std::string hash = wire::string_member(json, "sha256").value_or("");
    lines.push_back(name + "=" + version + "=" + build +
                    (hash.empty() ? "" : " --hash=sha256:" + hash));
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
Result<Hashes> add_python_packages(const Environment& environment, Install install,
                                   const Settings& settings, Watcher& watcher) {
  Environment python_part = environment;
  std::erase_if(python_part.lock, is_condas);
  if (!environment.lock.empty() && python_part.lock.empty()) return Hashes();
  const std::vector<std::string> lines = lines_to_install(python_part);
  if (lines.empty()) return Hashes();
  // Not asked who it is: it came with a package, and starts in the sandbox alone.
  install.python.file = install.root() / "bin" / "python";
  TRY(write_install(python_part, lines, install));
  const fs::path uv = find_uv(settings);
  return uv.empty() ? install_by_pip(install, settings, watcher)
                    : install_by_uv(uv, install, settings, watcher);
}

// A package of the lock whose bytes are others than they were.
Status check_conda_lock(const std::vector<std::string>& asked,
                        const std::vector<std::string>& installed) {
  for (const std::string& line : asked) {
    if (!is_condas(line) || hashes_of(line).empty()) continue;
    const std::string name = line.substr(0, line.find(" --hash"));
    const auto same = [&](const std::string& other) {
      return other.substr(0, other.find(" --hash")) == name && other != line;
    };
    if (std::ranges::none_of(installed, same)) continue;
    return fail(ErrorKind::invalid, name + " has another SHA-256 than it had in the lock",
                "The channel has changed the package. Build without the lock, or ask the channel.");
  }
  return {};
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
  // A package runs scripts of its own when it is linked: what it writes to a cache stays in this
  // environment.
  TRY_SET(const std::unique_ptr<Apart> apart, Apart::begin(settings, folder));
  variables["MAMBA_ROOT_PREFIX"] = apart->cache();
  variables["CONDA_PKGS_DIRS"] = apart->cache() / "pkgs";
  std::error_code none;
  const fs::path settings_file = fs::path(variable(variables, "HOME")) / ".condarc";
  if (fs::exists(settings_file, none)) variables.try_emplace("CONDARC", settings_file);
  for (const char* name : {"CONDA_ALWAYS_YES", "MAMBA_ALWAYS_YES", "CONDA_QUIET"}) {
    variables[name] = "true";
  }
  TRY(write_file(folder / "environment.yml", file_of(environment)));
  watcher.progress("resolving");
  const auto all = [](std::string_view) { return true; };
  install.local = local_paths(environment.recipe);
  TRY(run_step(in_sandbox({create_words(conda, install.root()), variables, folder}, install,
                          settings, Code::packages, {folder}, apart->scratch()),
               conda.filename().string(), install, watcher, all));
  TRY_SET(const Hashes hashes, add_python_packages(environment, install, settings, watcher));
  TRY(apart->end());
  Realised realised{.kind = EnvironmentKind::conda, .python = "root/bin/python"};
  TRY_SET(realised.lock, read_conda_lock(install.root()));
  TRY(check_conda_lock(environment.lock, realised.lock));
  TRY_SET(std::vector<std::string> installed, read_lock(install.root(), "conda"));
  installed = with_hashes(std::move(installed), hashes);
  realised.lock.insert(realised.lock.end(), installed.begin(), installed.end());
  TRY(settle_conda(install.root(), place_of(folder)));
  return realised;
}

}  // namespace trainyard::env
