#include "runtime/handover.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/file.h"

namespace trainyard::runtime {
namespace {

constexpr std::string_view kReading = "read the ranks' commands";

void put(std::string& text, uint64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void put(std::string& text, std::string_view bytes) {
  put(text, bytes.size());
  text.append(bytes);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<uint64_t> number() {
    uint64_t value = 0;
    if (text_.size() < sizeof value) return cut();
    std::memcpy(&value, text_.data(), sizeof value);
    text_.remove_prefix(sizeof value);
    return value;
  }
  // Of things that take at least 8 bytes each.
  Result<uint64_t> count() {
    TRY_SET(const uint64_t value, number());
    if (value > text_.size() / sizeof value) return cut();
    return value;
  }
  Result<std::string> bytes() {
    TRY_SET(const uint64_t size, number());
    if (size > text_.size()) return cut();
    std::string value(text_.substr(0, size));
    text_.remove_prefix(size);
    return value;
  }
  bool done() const { return text_.empty(); }
  static std::unexpected<Error> cut() {
    return fail(ErrorKind::internal, std::string(kReading) + ": they are cut off");
  }

 private:
  std::string_view text_;
};

Result<RankCommand> take_rank(Reader& reader) {
  RankCommand rank;
  TRY_SET(const uint64_t words, reader.count());
  for (uint64_t i = 0; i < words; ++i) {
    TRY_SET(std::string word, reader.bytes());
    rank.command.push_back(std::move(word));
  }
  TRY_SET(const uint64_t variables, reader.count());
  for (uint64_t i = 0; i < variables; ++i) {
    TRY_SET(std::string name, reader.bytes());
    TRY_SET(rank.environment[std::move(name)], reader.bytes());
  }
  TRY_SET(rank.shared.shelf, reader.bytes());
  TRY_SET(rank.shared.root, reader.bytes());
  TRY_SET(rank.shared.layer, reader.bytes());
  TRY_SET(rank.shared.below, reader.bytes());
  return rank;
}

}  // namespace

Result<Fd> open_handover() {
  Fd fd(memfd_create("trainyard-ranks", MFD_CLOEXEC));
  if (!fd) return fail_errno(errno, "make a file in memory");
  return fd;
}

Status hand_over(int fd, const std::vector<RankCommand>& ranks) {
  return write_all_at(fd, encode(ranks), 0, "hand over the ranks' commands");
}

Result<std::vector<RankCommand>> take_handover(int fd) {
  TRY_SET(const uint64_t size, file_size(fd, kReading));
  TRY_SET(const std::string text, read_at(fd, 0, size, kReading));
  return decode(text);
}

std::string encode(const std::vector<RankCommand>& ranks) {
  std::string text;
  put(text, ranks.size());
  for (const RankCommand& rank : ranks) {
    put(text, rank.command.size());
    for (const std::string& word : rank.command) put(text, word);
    put(text, rank.environment.size());
    for (const auto& [name, value] : rank.environment) {
      put(text, name);
      put(text, value);
    }
    put(text, rank.shared.shelf);
    put(text, rank.shared.root);
    put(text, rank.shared.layer);
    put(text, rank.shared.below);
  }
  return text;
}

Result<std::vector<RankCommand>> decode(std::string_view text) {
  Reader reader(text);
  std::vector<RankCommand> ranks;
  TRY_SET(const uint64_t count, reader.count());
  for (uint64_t i = 0; i < count; ++i) {
    TRY_SET(RankCommand rank, take_rank(reader));
    ranks.push_back(std::move(rank));
  }
  if (!reader.done()) return Reader::cut();
  return ranks;
}

}  // namespace trainyard::runtime
