#include "supervisor/journal.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::supervisor;

TEST_CASE("the checksum is CRC-32C") {
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c("") == 0);
}

TEST_CASE("a journal gives back its records in order, over several openings") {
  const TempDir folder;
  const fs::path path = folder.path() / "journal";
  {
    auto opened = Journal::open(path).value();
    CHECK(opened.records.empty());
    REQUIRE(opened.journal.append("one"));
    REQUIRE(opened.journal.append(std::string("\0\n\xff", 3)));
  }
  {
    auto opened = Journal::open(path).value();
    REQUIRE(opened.records.size() == 2);
    CHECK(opened.records[0] == "one");
    CHECK(opened.records[1] == std::string("\0\n\xff", 3));
    REQUIRE(opened.journal.append("three"));
  }
  CHECK(Journal::open(path).value().records.size() == 3);
}

TEST_CASE("wherever the file is cut, the whole records before stay and the next follow them") {
  const TempDir folder;
  const fs::path path = folder.path() / "journal";
  {
    auto opened = Journal::open(path).value();
    REQUIRE(opened.journal.append("first record"));
    REQUIRE(opened.journal.append("second"));
  }
  const std::string whole = read_file(path).value();
  constexpr size_t kFirst = 8 + 12;
  for (size_t size = 0; size < whole.size(); ++size) {
    REQUIRE(write_file(path, whole.substr(0, size)));
    {
      auto opened = Journal::open(path).value();
      CHECK(opened.records.size() == (size >= kFirst ? 1 : 0));
      REQUIRE(opened.journal.append("after"));
    }
    const auto again = Journal::open(path).value();
    REQUIRE(again.records.size() == (size >= kFirst ? 2 : 1));
    CHECK(again.records.back() == "after");
  }
}

TEST_CASE("a flipped bit or a tail of zeros ends the journal there") {
  const TempDir folder;
  const fs::path path = folder.path() / "journal";
  {
    auto opened = Journal::open(path).value();
    REQUIRE(opened.journal.append("first record"));
    REQUIRE(opened.journal.append("second"));
  }
  const std::string whole = read_file(path).value();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    REQUIRE(write_file(path, flipped));
    CHECK(Journal::open(path).value().records.size() == (at >= 20 ? 1 : 0));
  }
  REQUIRE(write_file(path, whole + std::string(4096, '\0')));
  CHECK(Journal::open(path).value().records.size() == 2);
}
