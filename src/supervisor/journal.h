#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/file.h"

namespace trainyard::supervisor {

// What a supervisor did, record after record, for the one that takes over if it dies. A record is
// u32 size, u32 CRC-32C, bytes, little-endian; whatever a crash or a power cut leaves at the end of
// the file is cut off at the next opening. Not synced: what a lost machine did not write, it did
// not keep running either. One thread.
class Journal {
 public:
  struct Opened;
  // Makes it, or takes up what is there.
  static Result<Opened> open(const fs::path& path);

  Status append(std::string_view record);

 private:
  Journal(Fd fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}
  Fd fd_;
  uint64_t size_ = 0;
};

struct Journal::Opened {
  Journal journal;
  std::vector<std::string> records;
};

uint32_t crc32c(std::string_view bytes);

}  // namespace trainyard::supervisor
