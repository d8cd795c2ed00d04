#include "supervisor/spool.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "supervisor/switches.h"
#include "wire/urls.h"

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

// "o5 e3 ": stream and size of each frame, and all bytes behind each other.
struct Parsed {
  std::string shape;
  std::string bytes;
};

Parsed parse(std::string_view body) {
  Parsed parsed;
  while (!body.empty()) {
    const wire::ConsoleHead head = wire::parse_console_head(body.data());
    parsed.shape += head.stream + std::to_string(head.size) + " ";
    parsed.bytes += body.substr(wire::kConsoleHeadSize, head.size);
    body.remove_prefix(wire::kConsoleHeadSize + head.size);
  }
  return parsed;
}

Parsed read(Spool& spool, uint64_t from, size_t max) {
  std::string body;
  REQUIRE(spool.read_frames(from, max, body));
  return parse(body);
}

}  // namespace

TEST_CASE("a switch is eight bytes, little-endian, the lowest bit for stderr") {
  CHECK(SwitchFile::encode({3, 'e'}) == std::string("\7\0\0\0\0\0\0\0", 8));
  for (const Switch record : {Switch{0, 'o'}, Switch{1, 'e'}, Switch{1ULL << 60, 'o'}}) {
    CHECK(SwitchFile::decode(SwitchFile::encode(record).data()) == record);
  }
}

TEST_CASE("the console comes back in frames by output, from any offset and of any size") {
  const TempDir folder;
  const auto spool = Spool::open(folder.path(), 0).value();
  CHECK(spool->size() == 0);
  REQUIRE(spool->append('o', "hello "));
  REQUIRE(spool->append('o', "world"));
  REQUIRE(spool->append('e', "err"));
  REQUIRE(spool->append('o', "!"));
  CHECK(spool->size() == 15);
  CHECK(read(*spool, 0, 100).shape == "o11 e3 o1 ");
  CHECK(read(*spool, 0, 100).bytes == "hello worlderr!");
  CHECK(read(*spool, 12, 100).shape == "e2 o1 ");
  CHECK(read(*spool, 14, 100).shape == "o1 ");
  CHECK(read(*spool, 6, 16).shape == "o5 e1 ");  // Back again, and cut inside a frame.
  CHECK(read(*spool, 0, 8).shape == "o3 ");
  CHECK(read(*spool, 15, 100).shape.empty());
}

TEST_CASE("short and long stretches by turns come back whole") {
  const TempDir folder;
  const auto spool = Spool::open(folder.path(), 0).value();
  std::string expected;
  for (int i = 0; i < 400; ++i) {
    const std::string piece(static_cast<size_t>(i * i % 9000), static_cast<char>('a' + i % 26));
    if (piece.empty()) continue;
    REQUIRE(spool->append(i % 2 == 0 ? 'o' : 'e', piece));
    expected += piece;
  }
  std::string bytes;
  std::string body;
  for (uint64_t at = 0; at < spool->size();) {
    at = spool->read_frames(at, 50'000, body).value();
    CHECK(body.size() <= 50'000);
    bytes += parse(body).bytes;
  }
  CHECK(bytes == expected);
}

TEST_CASE("a hundred thousand switches are found forwards and backwards") {
  const TempDir folder;
  const auto spool = Spool::open(folder.path(), 7).value();
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) REQUIRE(spool->append(i % 2 == 0 ? 'o' : 'e', "ab"));
  std::string body;
  uint64_t at = 0;
  std::string bytes;
  while (at < spool->size()) {
    at = spool->read_frames(at, 1000, body).value();
    bytes += parse(body).bytes;
  }
  CHECK(bytes.size() == 2 * kCount);
  for (const uint64_t offset : {0UL, 199'998UL, 1UL, 77'777UL, 100'000UL}) {
    const char expected = offset / 2 % 2 == 0 ? 'o' : 'e';
    CHECK(read(*spool, offset, 6).shape == std::string(1, expected) + "1 ");
  }
}

TEST_CASE("an earlier supervisor's spool is taken up, half an index record dropped") {
  const TempDir folder;
  {
    const auto spool = Spool::open(folder.path(), 0).value();
    REQUIRE(spool->append('e', "one"));
  }
  const fs::path index = folder.path() / "console-0.idx";
  REQUIRE(write_file(index, read_file(index).value() + "abc"));
  const auto spool = Spool::open(folder.path(), 0).value();
  CHECK(spool->size() == 3);
  REQUIRE(spool->append('e', "two"));
  REQUIRE(spool->append('o', "three"));
  CHECK(read(*spool, 0, 100).shape == "e6 o5 ");
}

TEST_CASE("the last bytes are there whatever was acknowledged") {
  const TempDir folder;
  const auto spool = Spool::open(folder.path(), 0).value();
  CHECK(spool->tail().value().empty());
  REQUIRE(spool->append('o', "short"));
  CHECK(spool->tail().value() == "short");
  CHECK(spool->tail(3).value() == "ort");
  for (int i = 0; i < 3; ++i) {
    const std::string block((4 << 20) - (i == 0 ? 5 : 0), static_cast<char>('a' + i));
    REQUIRE(spool->append('e', block));
    spool->release(spool->size());
    CHECK(spool->tail().value() == block.substr(block.size() - Spool::kTailMax));
  }
  REQUIRE(spool->append('o', "end"));
  CHECK(spool->tail(5).value() == "ccend");
  CHECK(Spool::open(folder.path(), 0).value()->tail(5).value() == "ccend");
}

TEST_CASE("what is acknowledged is given back to the disk, the rest stays") {
  const TempDir folder;
  const auto spool = Spool::open(folder.path(), 0).value();
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 16; ++i) REQUIRE(spool->append('o', piece));
  REQUIRE(spool->append('o', "end"));
  spool->release(spool->size() - 1);
  struct stat status{};
  REQUIRE(stat((folder.path() / "console-0.log").c_str(), &status) == 0);
  CHECK(status.st_size == (16 << 20) + 3);
  CHECK(status.st_blocks * 512 < 1 << 20);
  CHECK(read(*spool, 16 << 20, 100).bytes == "end");
  // Whoever takes over knows it: it must not send the zeros of a hole.
  const uint64_t from = spool->readable_from();
  CHECK(from == (16 << 20) - Spool::kTailMax);
  CHECK(read(*spool, from, 100).bytes == std::string(95, 'x'));
  CHECK(Spool::open(folder.path(), 0).value()->readable_from() == from);
  fs::remove(folder.path() / "console-0.rel");  // As an earlier version leaves it.
  CHECK(Spool::open(folder.path(), 0).value()->readable_from() == from);
}

TEST_CASE("what does not fit is an error, and what did fit is kept") {
  const TempDir folder;
  const auto spool = Spool::open(folder.path(), 0).value();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = spool->append('o', std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  CHECK_FALSE(status);
  CHECK(spool->size() == 1000);
  CHECK(read(*spool, 0, 10'000).bytes == std::string(1000, 'x'));
}
