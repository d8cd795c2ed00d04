#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "model/environment.h"

namespace trainyard::container {

// An image as files.
struct ImageFiles {
  std::string id;  // "sha256:…", as an engine knows it.
  ImageConfig config;
  std::vector<fs::path> layers;  // The lowest first.
};

// A folder of the OCI's image layout. `tag` chooses among several; of an image for several machines
// it is ours. Every file is compared with the hash it is named by, so what is damaged is `invalid`.
Result<ImageFiles> read_oci_layout(const fs::path& folder, std::string_view tag);

// The digest of the image that is meant, "sha256:…", by the text of index.json alone.
Result<std::string> manifest_digest(std::string_view index, std::string_view tag);

Result<Digest> hash_file(const fs::path& file);

// What `docker save` writes, taken out of its tar.
Result<ImageFiles> read_docker_archive(const fs::path& folder);

// The configuration of an image, in the OCI's words or docker's, which agree.
Result<ImageConfig> parse_image_config(std::string_view text);

}  // namespace trainyard::container
