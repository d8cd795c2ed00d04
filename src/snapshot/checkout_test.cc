#include <doctest/doctest.h>
#include <sys/stat.h>

#include "blob/blob_store.h"
#include "snapshot/capture.h"

namespace trainyard::snapshot {
namespace {

struct CheckoutBench {
  TempDir dir;
  fs::path out = dir.path() / "out";
  std::unique_ptr<blob::Store> store = *blob::open_folder(dir.path() / "blobs", dir.path() / "tmp");

  OpenBlob opener() {
    return [this](const Entry& entry) { return store->open(entry.digest); };
  }
  Entry file(std::string path, std::string_view bytes, EntryKind kind = EntryKind::file) {
    REQUIRE(store->put(sha256(bytes), bytes));
    return {.kind = kind, .path = std::move(path), .size = bytes.size(), .digest = sha256(bytes)};
  }
};

Entry link(std::string path, std::string target) {
  return {.kind = EntryKind::symlink, .path = std::move(path), .target = std::move(target)};
}

int mode(const fs::path& path) { return static_cast<int>(fs::symlink_status(path).permissions()); }

}  // namespace

TEST_CASE("capture, encode, decode and checkout bring a folder back byte for byte") {
  CheckoutBench bench;
  const fs::path code = bench.dir.path() / "code";
  const auto write = [&](const std::string& path, std::string_view bytes) {
    REQUIRE(make_dirs((code / path).parent_path()));
    REQUIRE(write_file(code / path, bytes));
  };
  for (int i = 0; i < 300; ++i) {
    write("d" + std::to_string(i % 17) + "/e" + std::to_string(i % 5) + "/f" + std::to_string(i),
          std::string(static_cast<size_t>(i * 37), static_cast<char>('a' + i % 26)));
  }
  write("large", std::string(3'000'000, 'L'));
  write("empty file", "");
  write("odd\n\xff\\name", "odd");
  write("run.sh", "#!/bin/sh\n");
  fs::permissions(code / "run.sh", fs::perms(0755));
  REQUIRE(make_dirs(code / "nothing/here"));
  fs::create_symlink("/etc/passwd", code / "absolute");
  fs::create_symlink("../../../x", code / "d1/up");
  fs::create_symlink("no such thing", code / "dangling");
  const auto captured = capture(code, {});
  REQUIRE(captured);
  for (const Entry& entry : captured->tree.entries) {
    if (entry.kind == EntryKind::symlink || entry.kind == EntryKind::folder) continue;
    REQUIRE(bench.store->put(entry.digest, *read_file(code / entry.path)));
  }
  const auto tree = decode(captured->text);
  REQUIRE(tree);
  for (const int threads : {1, 4}) {
    const fs::path out = bench.dir.path() / ("out" + std::to_string(threads));
    REQUIRE(checkout(*tree, out, bench.opener(), threads));
    const auto again = capture(out, {});
    REQUIRE(again);
    CHECK(again->text == captured->text);
    const std::string compare =
        "diff -r --no-dereference '" + code.string() + "' '" + out.string() + "'";
    CHECK(std::system(compare.c_str()) == 0);
  }
}

TEST_CASE("modes are those of the tree whatever the umask") {
  CheckoutBench bench;
  Tree tree;
  tree.entries = {bench.file("a/plain", "1"),
                  bench.file("a/program", "2", EntryKind::executable),
                  {.kind = EntryKind::folder, .path = "b"}};
  const mode_t before = umask(0077);
  const Status done = checkout(tree, bench.out, bench.opener());
  umask(before);
  REQUIRE(done);
  CHECK(mode(bench.out / "a/plain") == 0644);
  CHECK(mode(bench.out / "a/program") == 0755);
  CHECK(mode(bench.out / "a") == 0755);
  CHECK(mode(bench.out / "b") == 0755);
}

TEST_CASE("nothing is written through a symlink, of the tree or of the folder") {
  CheckoutBench bench;
  const fs::path outside = bench.dir.path() / "outside";
  REQUIRE(make_dirs(outside));
  Tree evil;
  evil.entries = {link("a", outside.string()), bench.file("a/b", "x")};
  CHECK(checkout(evil, bench.out, bench.opener()).error().kind == ErrorKind::invalid);
  CHECK(!fs::exists(bench.out));
  Tree good;
  good.entries = {bench.file("sub/b", "x")};
  REQUIRE(make_dirs(bench.out));
  fs::create_directory_symlink(outside, bench.out / "sub");
  CHECK(checkout(good, bench.out, bench.opener()).error().kind == ErrorKind::conflict);
  CHECK(fs::is_empty(outside));
}

TEST_CASE("a path out of the folder is refused before anything is made") {
  CheckoutBench bench;
  for (const char* path : {"../x", "/x", "a/../../x", "."}) {
    Tree tree;
    tree.entries = {bench.file(path, "x")};
    CHECK(checkout(tree, bench.out, bench.opener()).error().kind == ErrorKind::invalid);
  }
  CHECK(!fs::exists(bench.out));
}

TEST_CASE("what is there already is a conflict and stays as it is") {
  CheckoutBench bench;
  REQUIRE(make_dirs(bench.out));
  REQUIRE(write_file(bench.out / "a", "mine"));
  Tree tree;
  tree.entries = {bench.file("a", "theirs")};
  CHECK(checkout(tree, bench.out, bench.opener()).error().kind == ErrorKind::conflict);
  CHECK(*read_file(bench.out / "a") == "mine");
  tree.entries = {link("a", "x")};
  CHECK(checkout(tree, bench.out, bench.opener()).error().kind == ErrorKind::conflict);
  fs::create_symlink("elsewhere", bench.out / "b");
  tree.entries = {bench.file("b", "x")};
  CHECK(checkout(tree, bench.out, bench.opener()).error().kind == ErrorKind::conflict);
  CHECK(!fs::exists(bench.out / "elsewhere"));
}

TEST_CASE("a missing, short or long blob is an error and leaves no file under the name") {
  CheckoutBench bench;
  Tree tree;
  tree.entries = {{.path = "missing", .size = 1, .digest = sha256("nowhere")}};
  CHECK(checkout(tree, bench.out, bench.opener()).error().kind == ErrorKind::not_found);
  for (const uint64_t size : {1, 3, 200'000}) {
    tree.entries = {bench.file("wrong", "xx")};
    tree.entries[0].size = size;
    CHECK(checkout(tree, bench.out, bench.opener()).error().kind == ErrorKind::internal);
  }
  CHECK(fs::is_empty(bench.out));
}

TEST_CASE("an error in one of many files ends all threads") {
  CheckoutBench bench;
  Tree tree;
  for (int i = 1000; i < 2000; ++i)
    tree.entries.push_back(bench.file("f" + std::to_string(i), "x"));
  tree.entries[300].digest = sha256("nowhere");
  CHECK(checkout(tree, bench.out, bench.opener(), 4).error().kind == ErrorKind::not_found);
}

}  // namespace trainyard::snapshot
