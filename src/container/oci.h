#pragma once

#include <functional>
#include <span>
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
  struct Layer {
    Fd file;
    fs::path path;
  };
  std::vector<Layer> layers;  // The lowest first.
};

// A folder of the OCI's image layout. `tag` chooses among several; of an image for several machines
// it is ours. Every file is compared with the hash it is named by, so what is damaged is `invalid`.
// Its files are plain ones within the folder, and `folders` are those it may lie in (image_file.h).
Result<ImageFiles> read_oci_layout(const fs::path& folder, std::string_view tag,
                                   std::span<const std::string> folders = {});

// The digest of the image that is meant, "sha256:…", by the text of index.json alone.
Result<std::string> manifest_digest(std::string_view index, std::string_view tag);

// `cancelled` once `stopped` says so.
Result<Digest> hash_file(const Fd& file, const fs::path& path,
                         const std::function<bool()>& stopped = {});

// What `docker save` writes, taken out of its tar.
Result<ImageFiles> read_docker_archive(const fs::path& folder);

// The configuration of an image, in the OCI's words or docker's, which agree.
Result<ImageConfig> parse_image_config(std::string_view text);

}  // namespace trainyard::container
