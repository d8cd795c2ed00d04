#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

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
// Empty for an image that is not on the disk. `folders` are those it may lie in (image_file.h).
Result<std::string> image_digest(const std::string& reference,
                                 std::span<const std::string> folders = {});

// In place of Recipe::image_digest while ImageDigests reads the file.
inline constexpr std::string_view kDigestPending = "pending";

// The same, where a file that was looked at before is known by its inode, size and times: asked
// again it costs microseconds, however large it is. Thread-safe.
class ImageDigests {
 public:
  // `done` is called, on a thread of its own, when find() knows more of a reference than before.
  explicit ImageDigests(std::function<void(const std::string& reference)> done = {})
      : done_(std::move(done)) {}
  ~ImageDigests();

  // Never reads a large file itself: nothing means that a thread has begun to, and calls `done`.
  // Empty where the image is not on the disk, or cannot be read: who builds has the words for it,
  // and may be elsewhere.
  std::optional<std::string> find(const std::string& reference,
                                  std::span<const std::string> folders = {});

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
    std::string digest;  // Empty: it could not be read.
  };
  static Result<Stamp> stamp_of(const Fd& file, const fs::path& path);
  struct Job {
    std::string reference;
    std::vector<std::string> folders;
  };
  void read_waiting(const std::stop_token& stop);
  static Known read(const Job& job, const std::stop_token& stop);

  const std::function<void(const std::string& reference)> done_;
  std::mutex mutex_;
  std::condition_variable_any rung_;
  std::map<std::string, Known> known_;  // Held by mutex_; by reference.
  std::deque<Job> waiting_;             // Held by mutex_; the first is being read.
  std::jthread thread_;                 // Begun when first needed.
};

}  // namespace trainyard::container
