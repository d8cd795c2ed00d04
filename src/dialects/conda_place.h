#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::dialects {

// The folder of an environment that conda keeps on this machine, by its name ("base" is conda's
// own) or its path. `not_found` says where it was looked for. `variable` answers with the value of
// an environment variable, or nothing.
using VariableOf = std::function<std::string(const char* name)>;
Result<fs::path> find_conda_environment(const std::string& name, const VariableOf& variable);

}  // namespace trainyard::dialects
