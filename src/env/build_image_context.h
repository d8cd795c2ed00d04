#pragma once

#include <map>
#include <string>
#include <vector>

#include "env/build.h"

namespace trainyard::env {

// What an engine builds an image of, as one tar.
struct ImageContext {
  fs::path tar;
  std::string dockerfile;  // Its path within.
};

// Of a recipe with a Dockerfile, a build folder, or both. What .dockerignore names stays out.
// `scratch` is a folder of the caller's.
Result<ImageContext> write_context(const Recipe& recipe, const fs::path& scratch,
                                   const Settings& settings, const Watcher& watcher);

// Of a folder as it is.
Result<ImageContext> pack_context(const fs::path& folder, const fs::path& scratch,
                                  std::string dockerfile, const Settings& settings,
                                  const Watcher& watcher);

// The files below a folder without those that the lines of a .dockerignore leave out, sorted;
// folders too, unless all in them is left out.
Result<std::vector<std::string>> context_files(const fs::path& folder, std::string_view ignored);

}  // namespace trainyard::env
