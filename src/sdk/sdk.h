#pragma once

#include "base/file.h"

namespace trainyard::sdk {

// The Python package that every run finds first on its path. It travels in this binary, so that a
// node needs nothing but us.
//
// Puts it under `root`, in a folder named by what is in it, unless it is there; returns that
// folder: the one to put on PYTHONPATH. Several may do so at once.
Result<fs::path> install(const fs::path& root);

}  // namespace trainyard::sdk
