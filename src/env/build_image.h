#pragma once

#include "env/build.h"

namespace trainyard::env {

// An image for a recipe of kind container, in the engine of this machine (docker or podman): found
// or fetched by its name, built of a Dockerfile, or with packages on top of another one. It is
// called image_tag() there, and so is kept. Without an engine an image that is only named is
// unpacked into folder/root instead, and one that has to be built is `unavailable`, with what to
// start.
Result<Realised> build_image(const Environment& environment, const fs::path& folder,
                             const Settings& settings, Watcher& watcher);

// Whether it can still be used: an admin may have removed the image from the engine.
Result<bool> image_is_there(const Realised& realised, const fs::path& folder,
                            const Settings& settings);

// "trainyard/env:8f31c02b71aa"
std::string image_tag(std::string_view hash);

}  // namespace trainyard::env
