#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/environment.h"

namespace trainyard::env {

// What is installed in a virtual environment, exactly: "numpy==1.26.4", or "name @ URL" for what
// came from there, a commit instead of a branch. Sorted. Read from what each package says of itself
// (*.dist-info): no program is asked. Those of `but_by`, who installed them, are left out.
Result<std::vector<std::string>> read_lock(const fs::path& root, std::string_view but_by = {});

// The lines, each with the hashes of its package.
std::vector<std::string> with_hashes(std::vector<std::string> lines,
                                     const std::map<std::string, std::string>& hashes);

// The lines to install: the recipe's, each once; of an environment with a lock those of the lock,
// with the hashes that the recipe has for them.
std::vector<std::string> lines_to_install(const Environment& environment);

}  // namespace trainyard::env
