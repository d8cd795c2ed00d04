#pragma once

#include <string>
#include <vector>

#include "env/build.h"
#include "env/programs.h"
#include "env/python.h"
#include "model/requirement.h"

namespace trainyard::env {

// What is to be installed into a new virtual environment.
struct Install {
  Python python;
  fs::path folder;                        // root/ is made in it.
  std::vector<std::string> requirements;  // As the user wrote them, for errors.
  std::vector<PipOption> options;
  fs::path file;         // The lines to install; empty: none.
  fs::path constraints;  // Empty: none.
  bool exact = false;    // The lines are a lock: nothing else is installed.
  bool made = false;     // root/ is there already: of conda.

  fs::path root() const { return folder / "root"; }
};

// Puts the lines, the recipe's options and constraints into `install`, and into files beside root/.
Status write_install(const Environment& environment, const std::vector<std::string>& lines,
                     Install& install);

Status install_by_uv(const fs::path& uv, const Install& install, const Settings& settings,
                     Watcher& watcher);
Status install_by_pip(const Install& install, const Settings& settings, Watcher& watcher);

// Runs one step: its lines go to the log but for those that `is_logged` refuses, and its failure is
// explained in its own words.
using IsLogged = std::function<bool(std::string_view line)>;
Status run_step(const Program& program, std::string_view name, const Install& install,
                Watcher& watcher, const IsLogged& is_logged, const OnTick& on_tick = {});

// The machine's variables without those that say where else to install, or what else to import.
Variables plain_variables(const Settings& settings);

}  // namespace trainyard::env
