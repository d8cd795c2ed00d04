#include "container/unpack_tar.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text.h"

namespace trainyard::container {
namespace {

constexpr size_t kTarBlock = 512;
constexpr size_t kPieceMax = 256 * 1024;
constexpr uint64_t kTextMax = 1024 * 1024;  // A long name, or an extended header.

std::unexpected<Error> damaged(std::string_view what) {
  return fail(ErrorKind::invalid, "a damaged tar: " + std::string(what));
}

std::string_view text_field(const char* block, size_t at, size_t size) {
  const std::string_view field(block + at, size);
  return field.substr(0, field.find('\0'));
}

// Octal digits; or, for what is too large for them, a number of base 256.
Result<uint64_t> number_field(const char* block, size_t at, size_t size) {
  uint64_t value = 0;
  if ((static_cast<unsigned char>(block[at]) & 0x80) != 0) {
    for (size_t i = 1; i < size; ++i) {
      if (value >> 55 != 0) return damaged("a number that is too large");
      value = value << 8 | static_cast<unsigned char>(block[at + i]);
    }
    return value;
  }
  const std::string_view digits = trim(text_field(block, at, size));
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return damaged("a number that is none");
    value = value << 3 | static_cast<uint64_t>(digit - '0');
  }
  return value;
}

bool checksum_holds(const char* block) {
  constexpr size_t kAt = 148;
  constexpr size_t kSize = 8;
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    const bool own = i >= kAt && i < kAt + kSize;
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  const Result<uint64_t> said = number_field(block, kAt, kSize);
  return said && *said == sum;
}

std::optional<TarEntry::Type> type_of(char flag) {
  switch (flag) {
    case '0':
    case '\0':
    case '7':
      return TarEntry::Type::file;
    case '1':
      return TarEntry::Type::hardlink;
    case '2':
      return TarEntry::Type::symlink;
    case '3':
    case '4':
      return TarEntry::Type::device;
    case '5':
      return TarEntry::Type::folder;
    case '6':
      return TarEntry::Type::fifo;
    default:
      return std::nullopt;
  }
}

}  // namespace

struct TarReader::Extended {
  std::optional<std::string> path;
  std::optional<std::string> link;
  std::optional<uint64_t> size;
  std::optional<int64_t> mtime_s;
};

Result<bool> TarReader::next(TarEntry& entry) {
  Extended extended;
  char block[kTarBlock];
  for (;;) {
    TRY(skip());
    TRY_SET(const bool more, read_header(block));
    if (!more) return false;
    TRY_SET(const uint64_t size, number_field(block, 124, 12));
    const char flag = block[156];
    if (flag == 'L' || flag == 'K') {
      TRY_SET(const std::string text, read_text(size));
      (flag == 'L' ? extended.path : extended.link) = text.substr(0, text.find('\0'));
      continue;
    }
    if (flag == 'x' || flag == 'g') {
      TRY_SET(const std::string records, read_text(size));
      if (flag == 'x') TRY(apply(records, extended));  // What is said for all is of no interest.
      continue;
    }
    const std::optional<TarEntry::Type> type = type_of(flag);
    if (!type) return damaged(std::string("an entry of the unknown kind '") + flag + "'");
    std::string path(text_field(block, 0, 100));
    const bool posix = std::memcmp(block + 257, "ustar\0", 6) == 0;
    if (const auto prefix = text_field(block, 345, 155); posix && !prefix.empty()) {
      path = std::string(prefix) + "/" + path;
    }
    TRY_SET(const uint64_t mode, number_field(block, 100, 8));
    TRY_SET(const uint64_t mtime, number_field(block, 136, 12));
    entry.type = *type;
    entry.path = extended.path.value_or(path);
    entry.link = extended.link.value_or(std::string(text_field(block, 157, 100)));
    entry.mode = static_cast<unsigned>(mode & 07777);
    entry.mtime_s = extended.mtime_s.value_or(static_cast<int64_t>(mtime));
    // Of others it is no matter how much they say, except for who skips it.
    left_ = extended.size.value_or(size);
    if (entry.type != TarEntry::Type::file) left_ = 0;
    entry.size = left_;
    padding_ = (kTarBlock - left_ % kTarBlock) % kTarBlock;
    // Old tars have folders as files whose names end so.
    if (entry.type == TarEntry::Type::file && entry.path.ends_with('/')) {
      entry.type = TarEntry::Type::folder;
    }
    return true;
  }
}

Result<std::string_view> TarReader::piece() {
  buffer_.resize(static_cast<size_t>(std::min<uint64_t>(left_, kPieceMax)));
  TRY(read_all(buffer_.data(), buffer_.size()));
  left_ -= buffer_.size();
  return std::string_view(buffer_);
}

Result<bool> TarReader::read_header(char* block) {
  TRY_SET(const size_t got, read_(block, kTarBlock));
  if (got == 0) return false;  // Some leave out the two empty blocks at the end.
  TRY(read_all(block + got, kTarBlock - got));
  if (std::all_of(block, block + kTarBlock, [](char byte) { return byte == 0; })) {
    // Who writes to us must not find us gone.
    buffer_.resize(kPieceMax);
    for (;;) {
      TRY_SET(const size_t rest, read_(buffer_.data(), buffer_.size()));
      if (rest == 0) return false;
    }
  }
  if (!checksum_holds(block)) return damaged("a header whose sum is wrong");
  return true;
}

Result<std::string> TarReader::read_text(uint64_t size) {
  if (size > kTextMax) return damaged("a name that is too long");
  std::string text(static_cast<size_t>(size), '\0');
  TRY(read_all(text.data(), text.size()));
  left_ = 0;
  padding_ = (kTarBlock - size % kTarBlock) % kTarBlock;
  return text;
}

Status TarReader::skip() {
  left_ += std::exchange(padding_, 0);
  if (skip_ && left_ > 0) return skip_(std::exchange(left_, 0));
  while (left_ > 0) {
    TRY(piece());
  }
  return {};
}

Status TarReader::read_all(char* bytes, size_t size) {
  while (size > 0) {
    TRY_SET(const size_t got, read_(bytes, size));
    if (got == 0) return damaged("it ends in the middle");
    bytes += got;
    size -= got;
  }
  return {};
}

// "LENGTH KEY=VALUE\n", the length of all of it.
Status TarReader::apply(std::string_view records, Extended& extended) {
  while (!records.empty()) {
    const size_t space = records.find(' ');
    if (space == std::string_view::npos) return damaged("an extended header");
    TRY_SET(const int64_t length, parse_int(records.substr(0, space), "an extended header"));
    if (length <= static_cast<int64_t>(space) + 1 ||
        length > static_cast<int64_t>(records.size())) {
      return damaged("an extended header");
    }
    const auto size = static_cast<size_t>(length);
    const std::string_view record = records.substr(space + 1, size - space - 2);
    records.remove_prefix(size);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return damaged("an extended header");
    const std::string_view key = record.substr(0, equals);
    const std::string value(record.substr(equals + 1));
    if (key == "path") extended.path = value;
    if (key == "linkpath") extended.link = value;
    if (key.starts_with("GNU.sparse.")) return damaged("a file with holes");
    if (key == "size") {
      TRY_SET(const int64_t bytes, parse_int(value, "the size of a file in a tar"));
      if (bytes < 0) return damaged("a size below zero");
      extended.size = static_cast<uint64_t>(bytes);
    }
    if (key == "mtime") {
      // "1350244992.023960108"
      TRY_SET(extended.mtime_s, parse_int(value.substr(0, value.find('.')), "a time in a tar"));
    }
  }
  return {};
}

}  // namespace trainyard::container
