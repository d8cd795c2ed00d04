#pragma once

#include <string>

#include "env/build.h"

namespace trainyard::env {

// A virtual environment stands on an interpreter of the machine that made it. Where this machine
// has none at that path, makes it stand on one of the same version that is here (find_python()).
// `platform` is the recipe's ("linux-x86_64-cpython-3.11"). `not_found` says which versions are
// here. True: it was changed. Runs may begin to use it at the same time.
Result<bool> settle_python(const fs::path& root, const std::string& platform,
                           const Settings& settings);

}  // namespace trainyard::env
