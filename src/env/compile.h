#pragma once

#include "env/build.h"

namespace trainyard::env {

// Compiles the modules of a virtual environment in `folder`: runs cannot write there, and each
// would compile what it imports again. Once; it takes longer than the install, so nobody waits for
// it. No code of packages runs. The files are valid by what they are compiled from, whatever its
// time: they travel to nodes.
Status compile_modules(const Environment& environment, const fs::path& folder,
                       const Settings& settings, const Watcher& watcher);

}  // namespace trainyard::env
