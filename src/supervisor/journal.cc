#include "supervisor/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace trainyard::supervisor {
namespace {

constexpr size_t kHeadSize = 8;
constexpr uint32_t kRecordSizeMax = 16 << 20;  // A larger one is not ours but garbage.

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}

void put_u32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint32_t get_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

// The next whole record of `bytes`, which is moved behind it; false where there is none.
bool take_record(std::string_view& bytes, std::string& record) {
  if (bytes.size() < kHeadSize) return false;
  const uint32_t size = get_u32(bytes);
  if (size > kRecordSizeMax || bytes.size() - kHeadSize < size) return false;
  const std::string_view payload = bytes.substr(kHeadSize, size);
  if (get_u32(bytes.substr(4)) != crc32c(payload)) return false;
  record = payload;
  bytes.remove_prefix(kHeadSize + size);
  return true;
}

}  // namespace

Result<Journal::Opened> Journal::open(const fs::path& path) {
  TRY_SET(Fd fd, open_file(path, O_RDWR | O_CREAT, 0600));
  TRY_SET(const std::string bytes, read_file(path));
  Opened opened{Journal(std::move(fd), 0), {}};
  std::string_view rest = bytes;
  std::string record;
  // A record without bytes is what zeros after a power cut look like; we never write one.
  while (take_record(rest, record) && !record.empty()) {
    opened.records.push_back(record);
    opened.journal.size_ = bytes.size() - rest.size();
  }
  if (opened.journal.size_ < bytes.size() &&
      ftruncate(opened.journal.fd_.get(), static_cast<off_t>(opened.journal.size_)) != 0) {
    return fail_errno(errno, "cut the torn end of " + path.string());
  }
  return opened;
}

Status Journal::append(std::string_view record) {
  std::string bytes;
  bytes.reserve(kHeadSize + record.size());
  put_u32(bytes, static_cast<uint32_t>(record.size()));
  put_u32(bytes, crc32c(record));
  bytes.append(record);
  // At a place of ours, not at the end of the file: half a record that did not fit on a full disk
  // is written over by the next.
  TRY(write_all_at(fd_.get(), bytes, size_, "write the journal"));
  size_ += bytes.size();
  return {};
}

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t value = ~0U;
  for (const char byte : bytes) {
    value = (value >> 8) ^ kTable[(value ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~value;
}

}  // namespace trainyard::supervisor
