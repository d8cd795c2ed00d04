#include "logs/switch_index.h"

#include <endian.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace trainyard::logs {
namespace {

constexpr uint64_t kWindowRecords = 256;  // A page.

}  // namespace

void SwitchIndex::encode(const Switch& record, std::string& out) {
  const uint64_t words[2] = {
      htole64(record.offset),
      htole64(record.out_before * 2 + static_cast<uint64_t>(record.stream)),
  };
  char bytes[kRecordSize];
  std::memcpy(bytes, words, kRecordSize);
  out.append(bytes, kRecordSize);
}

Switch SwitchIndex::decode(const char* bytes) {
  uint64_t words[2];
  std::memcpy(words, bytes, kRecordSize);
  const uint64_t second = le64toh(words[1]);
  return {le64toh(words[0]), second / 2, second % 2 == 0 ? Stream::out : Stream::err};
}

Status SwitchIndex::settle(uint64_t size) {
  const uint64_t before = count_;
  SwitchCursor cursor(*this);
  last_ = {};
  while (count_ > 0) {
    TRY_SET(const Switch record, cursor.at(count_ - 1));
    if (record.offset < size) {
      last_ = record;
      break;
    }
    --count_;
  }
  if (count_ == before) return {};
  if (::ftruncate(fd_, static_cast<off_t>(count_ * kRecordSize)) != 0) {
    return fail_errno(errno, "cut a console's index");
  }
  return {};
}

Result<Switch> SwitchCursor::at(uint64_t number) {
  if (number >= index_.count()) return Switch{};
  const uint64_t held = window_.size() / SwitchIndex::kRecordSize;
  if (number < window_first_ || number >= window_first_ + held) {
    window_first_ = number - number % kWindowRecords;
    const uint64_t wanted = std::min(kWindowRecords, index_.count() - window_first_);
    TRY_SET(window_, read_at(index_.fd(), window_first_ * SwitchIndex::kRecordSize,
                             wanted * SwitchIndex::kRecordSize, "a console's index"));
    if (window_.size() != wanted * SwitchIndex::kRecordSize) {
      return fail(ErrorKind::internal, "a console's index is shorter than it was");
    }
  }
  return SwitchIndex::decode(window_.data() + (number - window_first_) * SwitchIndex::kRecordSize);
}

template <class Key>
Result<uint64_t> SwitchCursor::last_not_above(uint64_t value, Key key) {
  uint64_t low = 0;
  uint64_t high = std::max<uint64_t>(index_.count(), 1);
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    TRY_SET(const Switch record, at(middle));
    (key(record) <= value ? low : high) = middle;
  }
  return low;
}

Result<uint64_t> SwitchCursor::find_offset(uint64_t offset) {
  return last_not_above(offset, [](const Switch& record) { return record.offset; });
}

Result<uint64_t> SwitchCursor::find_position(Stream view, uint64_t position) {
  return last_not_above(position, [&](const Switch& record) { return record.before(view); });
}

}  // namespace trainyard::logs
