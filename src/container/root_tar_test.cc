#include "container/root_tar.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <map>

#include "container/unpack_test_tar.h"

namespace trainyard::container {
namespace {

std::string whole(RootTar& tar, size_t piece) {
  std::string all;
  std::string buffer(piece, '\0');
  for (;;) {
    const size_t got = tar.read(buffer.data(), buffer.size()).value();
    if (got == 0) return all;
    all += buffer.substr(0, got);
  }
}

struct Found {
  TarEntry entry;
  std::string bytes;
};

std::map<std::string, Found> entries_of(const std::string& text) {
  std::map<std::string, Found> found;
  TarReader tar = read_tar(text);
  TarEntry entry;
  while (tar.next(entry).value()) {
    Found& each = found[entry.path];
    each.entry = entry;
    for (;;) {
      const std::string_view piece = tar.piece().value();
      if (piece.empty()) break;
      each.bytes += piece;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("an unpacked image becomes a tar that everybody may read, with a /tmp for all") {
  const TempDir dir;
  const fs::path root = dir.path();
  const std::string deep = "opt/" + std::string(120, 'd') + "/" + std::string(120, 'f');
  const std::string far(150, 't');
  REQUIRE(make_dirs(root / "opt" / std::string(120, 'd')));
  REQUIRE(make_dirs(root / "tmp"));
  REQUIRE(make_dirs(root / "var/tmp"));
  REQUIRE(make_dirs(root / "closed", 0700));
  REQUIRE(write_file(root / "closed/run", "#!", 0700));
  REQUIRE(write_file(root / "closed/text", std::string(700, 'x'), 0600));
  REQUIRE(write_file(root / "block", std::string(1024, 'b')));
  REQUIRE(write_file(root / "none", ""));
  REQUIRE(write_file(root / deep, "deep"));
  fs::create_symlink("block", root / "near");
  fs::create_symlink(far, root / "far");
  REQUIRE(mkfifo((root / "fifo").c_str(), 0600) == 0);

  for (const size_t piece : {size_t{7}, size_t{65536}}) {
    RootTar tar = RootTar::open(root).value();
    const std::string text = whole(tar, piece);
    CHECK(text.size() == tar.size());
    std::map<std::string, Found> found = entries_of(text);
    CHECK(found["tmp/"].entry.mode == 01777);
    CHECK(found["var/tmp/"].entry.mode == 01777);
    CHECK(found["closed/"].entry.mode == 0755);
    CHECK(found["closed/run"].entry.mode == 0755);
    CHECK(found["closed/text"].entry.mode == 0644);
    CHECK(found["closed/text"].bytes == std::string(700, 'x'));
    CHECK(found["block"].bytes == std::string(1024, 'b'));
    CHECK(found["none"].bytes.empty());
    CHECK(found[deep].bytes == "deep");
    CHECK(found["near"].entry.link == "block");
    CHECK(found["far"].entry.link == far);
    CHECK_FALSE(found.contains("fifo"));
  }
}

TEST_CASE("a file that shrinks under the reader is said so, and no folder is no image") {
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "file", std::string(9000, 'x')));
  RootTar tar = RootTar::open(dir.path()).value();
  fs::resize_file(dir.path() / "file", 10);
  std::string buffer(1 << 16, '\0');
  Result<size_t> got = tar.read(buffer.data(), buffer.size());
  while (got && *got > 0) got = tar.read(buffer.data(), buffer.size());
  CHECK(got.error().kind == ErrorKind::conflict);
  CHECK(RootTar::open(dir.path() / "no-such").error().kind == ErrorKind::not_found);
}

}  // namespace trainyard::container
