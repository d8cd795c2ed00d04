#include "container/unpack_tar.h"

#include <doctest/doctest.h>

#include "container/unpack_test_tar.h"

namespace trainyard::container {
namespace {

std::string contents(TarReader& tar) {
  std::string all;
  for (;;) {
    const std::string_view piece = tar.piece().value();
    if (piece.empty()) return all;
    all += piece;
  }
}

TEST_CASE("a tar is read entry by entry, with or without an end") {
  TestTar written;
  written.folder("./etc/").file("./etc/motd", std::string(700, 'x'), 0640).symlink("b", "etc/motd");
  for (const std::string& text : {written.text(), written.open_end()}) {
    TarReader tar = read_tar(text);
    TarEntry entry;
    REQUIRE(tar.next(entry).value());
    CHECK(entry.type == TarEntry::Type::folder);
    REQUIRE(tar.next(entry).value());
    CHECK(entry.path == "./etc/motd");
    CHECK(entry.mode == 0640);
    CHECK(entry.mtime_s == 1'600'000'000);
    CHECK(contents(tar) == std::string(700, 'x'));
    REQUIRE(tar.next(entry).value());
    CHECK(entry.type == TarEntry::Type::symlink);
    CHECK(entry.link == "etc/motd");
    CHECK_FALSE(tar.next(entry).value());
  }
}

TEST_CASE("what is not read of a file is passed over") {
  TarReader tar = read_tar(TestTar().file("a", std::string(5000, 'a')).file("b", "b").text());
  TarEntry entry;
  REQUIRE(tar.next(entry).value());
  REQUIRE(tar.next(entry).value());
  CHECK(entry.path == "b");
  CHECK(contents(tar) == "b");
}

TEST_CASE("long names come by GNU's entries and by POSIX's headers") {
  const std::string name = std::string(150, 'n') + "/file";
  const std::string record = "164 path=" + name + "\n";
  REQUIRE(record.size() == 165);
  const std::string fixed = "165 path=" + name + "\n";
  for (const TestTar& written :
       {TestTar().add('L', "././@LongLink", name + '\0').file("short", "1"),
        TestTar().add('x', "pax", fixed).file("short", "1")}) {
    TarReader tar = read_tar(written.text());
    TarEntry entry;
    REQUIRE(tar.next(entry).value());
    CHECK(entry.path == name);
    CHECK(contents(tar) == "1");
    CHECK_FALSE(tar.next(entry).value());
  }
}

TEST_CASE("a damaged tar is refused, never half read") {
  const std::string good = TestTar().file("a", "content").text();
  std::string flipped = good;
  flipped[3] = 'x';
  const auto error = [](const std::string& text) {
    TarReader tar = read_tar(text);
    TarEntry entry;
    for (;;) {
      const Result<bool> more = tar.next(entry);
      if (!more) return more.error().message;
      if (!*more) return std::string("none");
    }
  };
  CHECK(error(good) == "none");
  CHECK(error(flipped) == "a damaged tar: a header whose sum is wrong");
  CHECK(error(good.substr(0, 300)) == "a damaged tar: it ends in the middle");
  CHECK(error(good.substr(0, 515)) == "a damaged tar: it ends in the middle");
  CHECK(error(TestTar().add('S', "holes").text()) ==
        "a damaged tar: an entry of the unknown kind 'S'");
  for (const char* record : {"", "5", "99 path=a\n", "-1 path=a\n", "7 path\n", "x path=a\n"}) {
    const std::string text = TestTar().add('x', "pax", record).file("a", "").text();
    CHECK_MESSAGE((error(text) == "none") == std::string_view(record).empty(), record);
  }
}

}  // namespace
}  // namespace trainyard::container
