#pragma once

#include "env/build.h"

namespace trainyard::env {

// A virtual environment in `folder`/root, by uv where it is in PATH, else by pip. It does not hold
// its own path: it may be moved.
Result<Realised> build_venv(const Environment& environment, const fs::path& folder,
                            const Settings& settings, Watcher& watcher);

}  // namespace trainyard::env
