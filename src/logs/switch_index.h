#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace trainyard::logs {

enum class Stream : uint8_t { out = 0, err = 1 };

// From `offset` on, the console's bytes are those of `stream`.
struct Switch {
  uint64_t offset = 0;
  uint64_t out_before = 0;  // How many of the bytes before are stdout's: makes a view seekable.
  Stream stream = Stream::out;

  // The view's bytes before this point.
  uint64_t before(Stream view) const {
    return view == Stream::out ? out_before : offset - out_before;
  }
  bool operator==(const Switch&) const = default;
};

// The switch points of a console in their file: per record u64 offset, u64 out_before*2 + stream,
// little-endian. Read from disk as needed: a script that prints by turns to both outputs makes
// millions of them. A small value; whoever holds the descriptor keeps it open.
class SwitchIndex {
 public:
  static constexpr uint64_t kRecordSize = 16;

  SwitchIndex() = default;
  SwitchIndex(int fd, uint64_t count) : fd_(fd), count_(count) {}

  int fd() const { return fd_; }
  uint64_t count() const { return count_; }
  // The newest record; one at 0 for stdout when there is none.
  const Switch& last() const { return last_; }

  // Cuts records that speak of bytes at or beyond `size`, then reads the last one that stays.
  Status settle(uint64_t size);
  void add(const Switch& record) {
    ++count_;
    last_ = record;
  }
  // The view's size in a console of `size` bytes.
  uint64_t view_size(Stream view, uint64_t size) const {
    return last_.before(view) + (last_.stream == view ? size - last_.offset : 0);
  }

  static void encode(const Switch& record, std::string& out);
  static Switch decode(const char* bytes);

 private:
  int fd_ = -1;
  uint64_t count_ = 0;
  Switch last_;
};

// Walks the records of an index, a window at a time.
class SwitchCursor {
 public:
  explicit SwitchCursor(const SwitchIndex& index) : index_(index) {}

  Result<Switch> at(uint64_t number);
  // The number of the record in whose stretch the console's byte `offset` lies.
  Result<uint64_t> find_offset(uint64_t offset);
  // The same for byte `position` of a view.
  Result<uint64_t> find_position(Stream view, uint64_t position);

 private:
  template <class Key>
  Result<uint64_t> last_not_above(uint64_t value, Key key);

  const SwitchIndex& index_;
  std::string window_;
  uint64_t window_first_ = 0;
};

}  // namespace trainyard::logs
