#include "supervisor/switches.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace trainyard::supervisor {
namespace {

constexpr size_t kRecordSize = 8;
constexpr size_t kWindowRecords = 512;
constexpr std::string_view kReading = "read the spool's index";

}  // namespace

Status SwitchFile::open(const fs::path& path) {
  Result<Fd> fd = open_file(path, O_RDWR);
  if (!fd && fd.error().kind == ErrorKind::not_found) return {};
  if (!fd) return std::unexpected(fd.error());
  fd_ = *std::move(fd);
  TRY_SET(written_, count());
  if (ftruncate(fd_.get(), static_cast<off_t>(written_ * kRecordSize)) != 0) {
    return fail_errno(errno, "cut " + path.string());
  }
  if (written_ == 0) return {};
  TRY_SET(const Switch last, at(written_ - 1));
  stream_ = last.stream;
  return {};
}

Status SwitchFile::create(const fs::path& path) {
  TRY_SET(fd_, open_file(path, O_RDWR | O_CREAT, 0600));
  return {};
}

Status SwitchFile::add(Switch next) {
  if (next.stream == stream_) return {};
  TRY(write_all_at(fd_.get(), encode(next), written_ * kRecordSize, "write the spool's index"));
  ++written_;
  stream_ = next.stream;
  return {};
}

Result<SwitchFile::Stretch> SwitchFile::find(uint64_t offset, uint64_t end) {
  // The writer may add meanwhile, but never below `end`, which was published after its switches.
  TRY_SET(const uint64_t records, count());
  TRY_SET(Switch current, at(found_));
  if (current.offset > offset) {
    // Back, to a place the server wants again: the last record not above it, by halving.
    uint64_t low = 0;
    uint64_t high = found_;
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      TRY_SET(const Switch record, at(middle));
      (record.offset <= offset ? low : high) = middle;
    }
    found_ = low;
    TRY_SET(current, at(found_));
  }
  while (found_ + 1 < records) {
    TRY_SET(const Switch next, at(found_ + 1));
    if (next.offset > offset) return Stretch{current.stream, std::min(next.offset, end)};
    current = next;
    ++found_;
  }
  return Stretch{current.stream, end};
}

Result<Switch> SwitchFile::at(uint64_t number) {
  const uint64_t held = window_.size() / kRecordSize;
  if (number < window_first_ || number >= window_first_ + held) {
    TRY_SET(window_,
            read_at(fd_.get(), number * kRecordSize, kWindowRecords * kRecordSize, kReading));
    window_first_ = number;
    if (window_.size() < kRecordSize) {
      return fail(ErrorKind::internal, "the spool's index has no record " + std::to_string(number));
    }
  }
  return decode(window_.data() + (number - window_first_) * kRecordSize);
}

Result<uint64_t> SwitchFile::count() {
  TRY_SET(const uint64_t size, file_size(fd_.get(), kReading));
  return size / kRecordSize;
}

std::string SwitchFile::encode(const Switch& record) {
  const uint64_t value = record.offset * 2 + (record.stream == 'e' ? 1 : 0);
  std::string bytes(kRecordSize, '\0');
  for (size_t i = 0; i < kRecordSize; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

Switch SwitchFile::decode(const char* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kRecordSize; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return {value / 2, (value & 1) != 0 ? 'e' : 'o'};
}

}  // namespace trainyard::supervisor
