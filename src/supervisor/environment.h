#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "container/plan.h"
#include "env/shelf.h"
#include "supervisor/rank_environment.h"

namespace trainyard::supervisor {

// What the ranks run in, once it is there.
struct EnvironmentUse {
  std::optional<env::Shelf::Held> held;         // Not taken away while we live.
  std::unique_ptr<container::Runtime> runtime;  // Of a container.
  std::string image;                            // Of one by an engine: its id there.
};

// Where environments are kept from run to run: the server's own shelf, where it is on this machine,
// else this node's: below TRAINYARD_KEEP, or `usual`.
fs::path shelf_of(const std::string& servers, const fs::path& usual);

// Puts the environment's programs first: those of a virtual environment, or the interpreter that is
// named. `folder` is where links to the latter may be made.
Status enter_environment(const Environment& environment, const EnvironmentUse& use,
                         const fs::path& folder, Variables& variables);

// "numpy==1.26.4\n…", with what was left out.
std::string lock_text(const Realised& realised);

}  // namespace trainyard::supervisor
