#pragma once

#include <functional>
#include <string_view>

#include "model/environment.h"
#include "store/store.h"

namespace trainyard::control {

// What the hash has to know of the machine that builds (env::platform_of).
using PlatformOf = std::function<Result<std::string>(const Recipe& recipe)>;

// An environment as a client asks for it made whole: a name becomes the recipe it stands for, with
// what was asked beside it put upon that; platform and hash are set. One that was resolved before
// (it has a hash) keeps its recipe, whatever has become of its name.
Result<Environment> resolve(store::Store& store, std::string_view workspace,
                            const Environment& asked, const PlatformOf& platform_of);

}  // namespace trainyard::control
