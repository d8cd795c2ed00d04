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

// The digest that a registry has for a name. `auth` is a file for the password; it is removed.
Result<std::string> digest_by_skopeo(const std::string& name, const Credentials& credentials,
                                     const fs::path& auth, milliseconds timeout);

// "ubuntu:22.04" as skopeo wants it: "docker://docker.io/library/ubuntu:22.04".
std::string skopeo_source(const std::string& name);

}  // namespace trainyard::container
