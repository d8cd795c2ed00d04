#include "env/build_venv.h"

#include "base/text.h"
#include "env/install.h"
#include "env/lock.h"

namespace trainyard::env {
namespace {

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
  Install install{.python = std::move(python),
                  .folder = folder,
                  .requirements = recipe.requirements,
                  .exact = !environment.lock.empty()};
  TRY(write_install(environment, lines_to_install(environment), install));
  return install;
}

}  // namespace

Result<Realised> build_venv(const Environment& environment, const fs::path& folder,
                            const Settings& settings, Watcher& watcher) {
  TRY_SET(const Install install, prepare(environment, folder, settings));
  watcher.line("Python " + install.python.version + " (" + install.python.file.string() + ")");
  const fs::path uv = find_program("uv", settings.variables);
  TRY(uv.empty() ? install_by_pip(install, settings, watcher)
                 : install_by_uv(uv, install, settings, watcher));
  Realised realised{.kind = EnvironmentKind::venv, .python = "root/bin/python"};
  TRY_SET(realised.lock, read_lock(install.root()));
  return realised;
}

}  // namespace trainyard::env
