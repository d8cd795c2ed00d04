#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::container {

// One entry of a tar, as images have them.
struct TarEntry {
  enum class Type { file, folder, symlink, hardlink, fifo, device };
  Type type = Type::file;
  std::string path;  // As it is written there: "./usr/bin/", "/etc".
  std::string link;  // Where a link leads.
  unsigned mode = 0;
  int64_t mtime_s = 0;
  uint64_t size = 0;  // Of a file.
};

// A tar read from its begin to its end: ustar with GNU's long names and POSIX's extended headers.
// Whatever else is there, or damaged, is `invalid`.
class TarReader {
 public:
  // Fills up to `size` bytes; 0 at the end.
  using Read = std::function<Result<size_t>(char* bytes, size_t size)>;
  // Passes over as many bytes; without one they are read.
  using Skip = std::function<Status(uint64_t size)>;
  explicit TarReader(Read read, Skip skip = {}) : read_(std::move(read)), skip_(std::move(skip)) {}

  // The next entry; false at the end. What was not read of the one before is passed over.
  Result<bool> next(TarEntry& entry);
  // The bytes of the file that next() has found, piece by piece; empty at its end. Valid until the
  // next call.
  Result<std::string_view> piece();

 private:
  struct Extended;  // What an extended header says of the next entry.
  Result<bool> read_header(char* block);
  Result<std::string> read_text(uint64_t size);
  Status skip();
  Status read_all(char* bytes, size_t size);
  static Status apply(std::string_view records, Extended& extended);

  Read read_;
  Skip skip_;
  uint64_t left_ = 0;     // Of the entry's bytes,
  uint64_t padding_ = 0;  // and those that follow them up to the next block.
  std::string buffer_;
};

}  // namespace trainyard::container
