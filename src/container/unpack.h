#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "container/engine_api.h"
#include "model/environment.h"

// Images without an engine: taken apart into a plain folder, which bubblewrap then shows as a root.
namespace trainyard::container {

struct Unpacked {
  std::string id;  // "sha256:…"; of a bare root filesystem the hash of its tar.
  ImageConfig config;
  uint64_t bytes = 0;
  uint64_t files = 0;
};

struct UnpackOptions {
  Credentials credentials;                               // Of a registry that wants some.
  std::function<void(std::string_view)> line;            // Of the log.
  std::function<void(std::string_view)> progress;        // "layer 2 of 5"
  std::function<bool()> stopped = [] { return false; };  // Whether it is wanted no more.
  std::vector<std::string> folders = {};  // Where an image by path may lie (image_file.h).
};

// Makes `root`, a folder that is not there yet, of an image:
//
//   oci:FOLDER[:TAG]      a layout of the OCI, as skopeo, buildah and umoci write it
//   docker-archive:FILE   what `docker save` or `podman save` writes; oci-archive: is the same
//   rootfs:FILE           the tar of a root filesystem: `docker export`, mmdebstrap
//   NAME                  of a registry, by the program skopeo
//
// What fails or is stopped half-way leaves nothing. It needs as much room again beside `root` while
// it works. A full disk is `no_space`; what the user can mend `invalid` or `not_found`.
Result<Unpacked> unpack_image(const std::string& reference, const fs::path& root,
                              const UnpackOptions& options);

// The same of an image that an engine has, by its name or id.
Result<Unpacked> unpack_from_engine(EngineApi& engine, const std::string& image,
                                    const fs::path& root, const UnpackOptions& options);

}  // namespace trainyard::container
