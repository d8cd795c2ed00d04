#pragma once

#include <functional>
#include <string_view>

#include "model/environment.h"
#include "store/store.h"

namespace trainyard::control {

// Sets what the hash has to know of the machine that builds: platform, and of an image that is a
// file there image_digest.
using SettleRecipe = std::function<Status(Recipe& recipe)>;

// An environment as a client asks for it made whole: a name becomes the recipe it stands for, with
// what was asked beside it put upon that; platform and hash are set. One that was resolved before
// (it has a hash) keeps its recipe, whatever has become of its name and of its image's file.
Result<Environment> resolve(store::Store& store, std::string_view workspace,
                            const Environment& asked, const SettleRecipe& settle);

}  // namespace trainyard::control
