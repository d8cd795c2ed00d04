#include "env/compile.h"

#include "env/install.h"
#include "env/python.h"

namespace trainyard::env {
namespace {

constexpr const char* kCompiled = "compiled-checked";  // Beside root/, once it is done.

}  // namespace

Status compile_modules(const Environment& environment, const fs::path& folder,
                       const Settings& settings, const Watcher& watcher) {
  std::error_code none;
  const fs::path library = folder / "root" / "lib";
  const bool venv = environment.recipe.kind == EnvironmentKind::venv;
  if (!venv || fs::exists(folder / kCompiled, none) ||
      !is_folder_inside(folder / "root", library)) {
    return {};
  }
  // The machine's own interpreter, and none of the environment's packages: -I -S.
  Install install;
  TRY_SET(install.python, find_python(environment.recipe.python, settings));
  const fs::path nice = find_program("nice", settings.variables);
  std::vector<std::string> words;
  if (!nice.empty()) words = {nice, "-n", "19"};
  // Checked: a run that changes a module in its own layer gets what it wrote.
  words.insert(words.end(), {install.python.file, "-I", "-S", "-m", "compileall", "-q", "-j", "0",
                             "--invalidation-mode", "checked-hash", library});
  const Program program = in_sandbox({std::move(words), plain_variables(settings), folder}, install,
                                     settings, Code::tools, {folder});
  // Exit code 1: a file is no Python of this version, as templates and tests of packages are.
  TRY(run_program(program, watcher, [](std::string_view) {}));
  return write_file(folder / kCompiled, "");
}

}  // namespace trainyard::env
