#include "supervisor/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace trainyard::supervisor {
namespace {

void put_first(const fs::path& folder, Variables& variables) {
  std::string& path = variables["PATH"];
  path = folder.string() + (path.empty() ? "" : ":" + path);
}

// The variable that names the environment which an interpreter of the user's own belongs to; empty:
// to none.
std::string prefix_variable(const fs::path& prefix) {
  std::error_code ignored;
  if (access((prefix / "bin" / "python").c_str(), X_OK) != 0) return {};
  if (fs::exists(prefix / "conda-meta", ignored)) return "CONDA_PREFIX";
  return fs::exists(prefix / "pyvenv.cfg", ignored) ? "VIRTUAL_ENV" : "";
}

// An interpreter of the user's own: scripts ask for `python`, whatever its file is called.
Status link_interpreter(const std::string& interpreter, const fs::path& folder,
                        Variables& variables) {
  if (access(interpreter.c_str(), X_OK) != 0) {
    return fail_errno(errno, "the interpreter " + interpreter);
  }
  // With all its programs; and a virtual environment's Python knows itself by its place alone.
  const fs::path prefix = fs::path(interpreter).parent_path().parent_path();
  if (const std::string variable = prefix_variable(prefix); !variable.empty()) {
    variables[variable] = prefix;
    variables.erase("PYTHONHOME");
    put_first(prefix / "bin", variables);
    return {};
  }
  TRY(make_dirs(folder));
  for (const char* name : {"python", "python3"}) {
    const fs::path link = folder / name;
    unlink(link.c_str());
    if (symlink(interpreter.c_str(), link.c_str()) != 0) return fail_errno(errno, link.string());
  }
  put_first(folder, variables);
  return {};
}

}  // namespace

fs::path shelf_of(const std::string& servers, const fs::path& usual) {
  if (!servers.empty()) return servers;
  const char* keep = std::getenv("TRAINYARD_KEEP");
  return keep != nullptr && *keep == '/' ? fs::path(keep) / "environments" : usual;
}

Status enter_environment(const Environment& environment, const EnvironmentUse& use,
                         const fs::path& folder, Variables& variables) {
  if (!use.held) {
    if (!environment.interpreter.starts_with('/')) return {};
    return link_interpreter(environment.interpreter, folder, variables);
  }
  const fs::path root = use.held->folder / "root";
  switch (use.held->realised.kind) {
    case EnvironmentKind::venv:
      variables["VIRTUAL_ENV"] = root;
      break;
    case EnvironmentKind::conda:
      variables["CONDA_PREFIX"] = root;
      variables["CONDA_DEFAULT_ENV"] = root;
      break;
    case EnvironmentKind::system:
    case EnvironmentKind::container:
      return {};
  }
  // Of another Python: it would look for its library there.
  variables.erase("PYTHONHOME");
  put_first(root / "bin", variables);
  return {};
}

std::string lock_text(const Realised& realised) {
  std::string text;
  for (const std::string& line : realised.left_out) {
    text += "# left out, as Trainyard provides it: " + line + "\n";
  }
  for (const std::string& line : realised.lock) text += line + "\n";
  return text;
}

}  // namespace trainyard::supervisor
