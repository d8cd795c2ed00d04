#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard::container {

// An unpacked image as a tar, read piece by piece, for an engine that is to have it. All of it is
// root's: whose a file was is not known any more. Folders and files may be read by everybody, and
// written by all where that is usual: /tmp, /var/tmp. Devices and sockets are left out.
class RootTar {
 public:
  static Result<RootTar> open(const fs::path& root);

  uint64_t size() const { return size_; }
  // Fills up to `size` bytes; 0 at the end. A file that has changed since open() is `conflict`.
  Result<size_t> read(char* buffer, size_t size);

 private:
  struct Entry {
    std::string path;  // "usr/bin/env"; of a folder "usr/bin/".
    std::string link;  // Of a symbolic link.
    unsigned mode = 0;
    uint64_t size = 0;  // Of a file.
    int64_t mtime_s = 0;
  };
  explicit RootTar(fs::path root) : root_(std::move(root)) {}
  Status add(const fs::path& path);
  static std::string header(const Entry& entry);
  static uint64_t padded(uint64_t size);
  Status begin_next();
  Result<size_t> read_file_bytes(char* buffer, size_t size);

  fs::path root_;
  std::vector<Entry> entries_;
  uint64_t size_ = 0;
  size_t next_ = 0;      // Of the entries.
  std::string head_;     // What is to be given before the file's bytes: headers, or the end.
  size_t head_at_ = 0;   // How much of it was.
  Fd file_;              // The entry's,
  uint64_t left_ = 0;    // and what is left of it,
  std::string padding_;  // and what follows.
  bool ended_ = false;
};

}  // namespace trainyard::container
