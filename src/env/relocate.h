#pragma once

#include "base/file.h"
#include "base/result.h"

namespace trainyard::env {

// Takes a virtual environment's own path out of its programs, as `uv venv --relocatable` does from
// the start: they find the interpreter beside themselves, wherever the whole is moved to.
Status make_relocatable(const fs::path& root);

}  // namespace trainyard::env
