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

}  // namespace trainyard::env
