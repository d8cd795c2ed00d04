#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/file.h"

namespace trainyard::supervisor {

// From `offset` on the console's bytes are those of `stream`, 'o' or 'e'.
struct Switch {
  uint64_t offset = 0;
  char stream = 'o';
  bool operator==(const Switch&) const = default;
};

// Where a spooled console switches between its outputs: per record u64 LE, offset*2 + (1 for
// stderr). On disk because a script that prints by turns makes millions of them while a server is
// away. One thread adds, one reads.
class SwitchFile {
 public:
  // Cuts half a record at the end; reads the last one. No file is made by open().
  Status open(const fs::path& path);
  Status create(const fs::path& path);

  // Notes that `stream` begins at `offset`, unless it is already the one.
  Status add(Switch next);

  // Of the reader. The stream at `offset`, and where it ends: the next switch or `end`.
  struct Stretch {
    char stream = 'o';
    uint64_t end = 0;
  };
  Result<Stretch> find(uint64_t offset, uint64_t end);

  static std::string encode(const Switch& record);
  static Switch decode(const char* bytes);

 private:
  Result<Switch> at(uint64_t number);
  Result<uint64_t> count();

  Fd fd_;
  // The writer's.
  uint64_t written_ = 0;  // Records.
  char stream_ = 0;       // The newest; 0: none.
  // The reader's: a window of records, and the number of the one found last.
  std::string window_;
  uint64_t window_first_ = 0;
  uint64_t found_ = 0;
};

}  // namespace trainyard::supervisor
