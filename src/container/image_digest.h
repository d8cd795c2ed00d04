#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "model/environment.h"

namespace trainyard::container {

// Where an image comes from.
struct ImageSource {
  enum class Form {
    named,    // Of an engine or a registry.
    layout,   // oci:FOLDER[:TAG]
    archive,  // docker-archive:FILE, oci-archive:FILE
    rootfs,   // rootfs:FILE
  };
  Form form = Form::named;
  fs::path path;    // Of the three that are on the disk.
  std::string tag;  // Of a layout; empty: it has one image.
};
ImageSource image_source(const std::string& reference);

// What an image on the disk holds, "sha256:…": other bytes under the same name are another image.
//
//   a layout    the digest of its manifest, which names all else by digests
//   an archive  its configuration, which names its layers by digests; their order and sizes
//   a tar       its bytes
//
// Empty for an image that is not on the disk.
Result<std::string> image_digest(const std::string& reference);

// The same, where a file that was looked at before is known by its inode, size and times: asked
// again it costs microseconds, however large it is. Thread-safe.
class ImageDigests {
 public:
  Result<std::string> of(const std::string& reference);

  // Sets Recipe::image_digest. A file that cannot be read leaves it empty: who builds has the words
  // for it, and may be elsewhere.
  void settle(Recipe& recipe);

 private:
  struct Stamp {
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t size = 0;
    int64_t modified_ns = 0;
    int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Known {
    Stamp stamp;
    std::string digest;
  };
  static Result<Stamp> stamp_of(const fs::path& file);

  std::mutex mutex_;
  std::map<std::string, Known> known_;  // By reference.
};

}  // namespace trainyard::container
