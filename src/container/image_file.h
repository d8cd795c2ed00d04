#pragma once

#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::container {

// Opens what an image reference names on this machine. `folders` (Environment::image_folders) are
// those it must lie in, with no link that leads out; none: anywhere. It never waits: what is not a
// plain file, or is too large for an image, is `invalid`.
Result<Fd> open_image_file(const fs::path& path, std::span<const std::string> folders);
Result<Fd> open_image_folder(const fs::path& path, std::span<const std::string> folders);

// The same image as a reference to a copy in `scratch`, for a program that opens it by its name:
// nobody else can change the copy. `reference` is oci:FOLDER[:TAG], or PREFIX:FILE.
Result<std::string> copy_image(const std::string& reference, std::span<const std::string> folders,
                               const fs::path& scratch);

// A small file in one piece: a manifest, a configuration.
Result<std::string> read_document(const Fd& file, const fs::path& path);

}  // namespace trainyard::container
