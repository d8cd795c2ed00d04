#pragma once

#include <string>
#include <vector>

#include "model/environment.h"

namespace trainyard {

// Environment::hash: recipe_hash(); of an environment that brings a lock another one. Whoever sends
// a lock decides what they get themselves, and not what others find who ask for the recipe alone.
std::string environment_hash(const Environment& environment);

// The files and folders of the machine that builds which a recipe names: wheels, folders for
// --find-links, indexes and channels that are folders.
std::vector<std::string> local_paths(const Recipe& recipe);

}  // namespace trainyard
