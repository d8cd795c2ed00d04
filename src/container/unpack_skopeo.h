#pragma once

#include <string>

#include "base/file.h"
#include "base/result.h"
#include "container/unpack.h"

namespace trainyard::container {

// Fetches an image of a registry into a new layout of the OCI, by the program skopeo. What it says
// goes to the log; what it failed for is the error.
Status fetch_by_skopeo(const std::string& name, const fs::path& layout,
                       const UnpackOptions& options);

// "ubuntu:22.04" as skopeo wants it: "docker://docker.io/library/ubuntu:22.04".
std::string skopeo_source(const std::string& name);

}  // namespace trainyard::container
