#pragma once

#include "env/build.h"
#include "env/programs.h"

namespace trainyard::env {

// An environment of conda's in `folder`/root, by micromamba, mamba or conda, whichever is first in
// PATH. Where none is, a virtual environment of the same packages, if all are Python's. It holds
// the path it will have on the shelf: see settle_conda().
Result<Realised> build_conda(const Environment& environment, const fs::path& folder,
                             const Settings& settings, Watcher& watcher);

// micromamba, mamba or conda; empty where none is.
fs::path find_conda(const Variables& variables);

}  // namespace trainyard::env
