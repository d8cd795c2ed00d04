#include "env/build_venv.h"

#include <set>

#include "base/text.h"
#include "env/install.h"
#include "env/lock.h"
#include "env/sandbox.h"

namespace trainyard::env {
namespace {

// pip's place in an environment that has none: without it, `pip install` in a run would be the
// machine's, and install into the machine's Python. Copying pip itself takes longer than the rest
// of a small build. pip 22.3 is the first that installs for another interpreter.
constexpr std::string_view kPipProgram = R"sh(#!/bin/sh
root=$(dirname -- "$(dirname -- "$(realpath -- "$0")")")
base=$(realpath -- "$root/bin/python")
new='import pip; assert tuple(map(int, pip.__version__.split(".")[:2])) >= (22, 3)'
if "$base" -c "$new" 2>/dev/null
then PIP_DISABLE_PIP_VERSION_CHECK=1 exec "$base" -m pip --python "$root/bin/python" "$@"; fi
if command -v uv >/dev/null; then VIRTUAL_ENV=$root exec uv pip "$@"; fi
echo "error: pip: neither $base has pip 22.3 or newer nor is uv on this machine" >&2
echo "       List the package in the environment's requirements, or install uv here." >&2
exit 1
)sh";

Status provide_pip(const fs::path& root) {
  if (!is_folder_inside(root, root / "bin")) {  // What a build has left may be links to anywhere.
    return fail(ErrorKind::invalid, "the build has left no folder bin");
  }
  for (const char* name : {"pip", "pip3"}) {
    std::error_code none;
    if (fs::exists(fs::symlink_status(root / "bin" / name, none))) continue;  // It has pip itself.
    TRY(write_file(root / "bin" / name, kPipProgram, 0755));
  }
  return {};
}

Result<Install> prepare(const Environment& environment, const fs::path& folder,
                        const Settings& settings) {
  const Recipe& recipe = environment.recipe;
  TRY_SET(Python python, find_python(recipe.python, settings));
  if (!recipe.platform.empty() && recipe.platform != python.platform()) {
    return fail(ErrorKind::unavailable,
                "the environment is for " + recipe.platform + ", and Python here is now " +
                    python.platform(),
                "Submit it again.");
  }
  Install install{
      .python = std::move(python), .folder = folder, .requirements = recipe.requirements};
  TRY(write_install(environment, lines_to_install(environment), install));
  return install;
}

// An interpreter of a conda environment that the recipe names: what is installed goes upon the
// packages that are there.
bool stands_on_conda(const Recipe& recipe) {
  if (!recipe.python.starts_with('/')) return false;
  std::error_code ignored;
  return fs::exists(fs::path(recipe.python).parent_path().parent_path() / "conda-meta", ignored);
}

Status show_base(const fs::path& root) {
  constexpr std::string_view kKey = "include-system-site-packages";
  if (!is_plain_file_inside(root, root / "pyvenv.cfg")) {
    return fail(ErrorKind::invalid, "the build has left no pyvenv.cfg");
  }
  TRY_SET(const std::string before, read_file(root / "pyvenv.cfg"));
  std::string text;
  for (const std::string& line : split(trim(before), '\n')) {
    if (!trim(line).starts_with(kKey)) text += line + "\n";
  }
  return write_file(root / "pyvenv.cfg", text + std::string(kKey) + " = true\n");
}

Result<Hashes> install_packages(const Install& install, const Settings& settings,
                                Watcher& watcher) {
  const fs::path uv = find_uv(settings);
  if (uv.empty()) return install_by_pip(install, settings, watcher);
  Result<Hashes> hashes = install_by_uv(uv, install, settings, watcher);
  const bool old = has_own_pip(install) && !hashes && hashes.error().kind != ErrorKind::cancelled;
  if (!old) return hashes;
  watcher.line("uv failed, and newer versions of it refuse Python " + install.python.version +
               ": the pip of that Python is tried.");
  TRY(remove_tree(install.root()));
  return install_by_pip(install, settings, watcher);
}

// What the interpreter brings itself is not locked, unless it was asked for.
std::vector<std::string> without_own_pip(std::vector<std::string> lock, const Install& install) {
  std::set<std::string> asked;
  for (const std::string& line : install.lines) {
    asked.insert(package_name(parse_requirement(line).name));
  }
  std::erase_if(lock, [&](const std::string& line) {
    const std::string name = package_name(parse_requirement(line).name);
    return (name == "pip" || name == "setuptools" || name == "wheel") && !asked.contains(name);
  });
  return lock;
}

}  // namespace

Result<Realised> build_venv(const Environment& environment, const fs::path& folder,
                            const Settings& settings, Watcher& watcher) {
  TRY_SET(const Install install, prepare(environment, folder, settings));
  watcher.line("Python " + install.python.version + " (" + install.python.file.string() + ")");
  TRY_SET(const Hashes hashes, install_packages(install, settings, watcher));
  if (stands_on_conda(environment.recipe)) TRY(show_base(install.root()));
  TRY(provide_pip(install.root()));
  Realised realised{.kind = EnvironmentKind::venv, .python = "root/bin/python"};
  TRY_SET(std::vector<std::string> lock, read_lock(install.root()));
  if (has_own_pip(install)) lock = without_own_pip(std::move(lock), install);
  realised.lock = with_hashes(lock, hashes);
  return realised;
}

}  // namespace trainyard::env
