#include "snapshot/folder_cursor.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace trainyard::snapshot {

TEST_CASE("a cursor goes anywhere below its root, in any order") {
  TempDir dir;
  for (const char* path : {"a/b/c", "a/bc", "ab", "a/b/d"}) REQUIRE(make_dirs(dir.path() / path));
  const Fd root = *open_root(dir.path());
  FolderCursor cursor(root.get(), dir.path());
  for (const char* path : {"a/b/c", "a/bc", "a/b/d", "", "ab", "a", "a/b", "a/b/c", "ab"}) {
    CAPTURE(path);
    const auto fd = cursor.at(path);
    REQUIRE(fd);
    struct stat ours{};
    struct stat theirs{};
    REQUIRE(fstat(*fd, &ours) == 0);
    REQUIRE(stat((dir.path() / path).c_str(), &theirs) == 0);
    CHECK(ours.st_ino == theirs.st_ino);
  }
  CHECK(cursor.at("a/x").error().kind == ErrorKind::not_found);
  CHECK(cursor.at("a/b"));
}

TEST_CASE("a cursor goes through no symlink and no file") {
  TempDir dir;
  REQUIRE(make_dirs(dir.path() / "real/sub"));
  fs::create_symlink("real", dir.path() / "link");
  REQUIRE(write_file(dir.path() / "file", ""));
  const Fd root = *open_root(dir.path());
  for (const auto missing : {FolderCursor::Missing::refuse, FolderCursor::Missing::make}) {
    FolderCursor cursor(root.get(), dir.path(), missing);
    CHECK(cursor.at("link").error().kind == ErrorKind::conflict);
    CHECK(cursor.at("link/sub").error().kind == ErrorKind::conflict);
    CHECK(cursor.at("file/sub").error().kind == ErrorKind::conflict);
    CHECK(cursor.at("real/sub"));
  }
}

TEST_CASE("a cursor that makes folders gives them 0755 whatever the umask") {
  TempDir dir;
  const Fd root = *open_root(dir.path());
  const mode_t before = umask(0077);
  FolderCursor cursor(root.get(), dir.path(), FolderCursor::Missing::make);
  const bool made = cursor.at("a/b").has_value();
  umask(before);
  CHECK(made);
  CHECK(static_cast<int>(fs::status(dir.path() / "a").permissions()) == 0755);
  CHECK(static_cast<int>(fs::status(dir.path() / "a/b").permissions()) == 0755);
}

TEST_CASE("a path longer than PATH_MAX is no obstacle") {
  TempDir dir;
  const Fd root = *open_root(dir.path());
  FolderCursor cursor(root.get(), dir.path(), FolderCursor::Missing::make);
  std::string path = std::string(200, 'x');
  for (int i = 0; i < 30; ++i) path += "/" + std::string(200, 'x');
  CHECK(cursor.at(path));
}

}  // namespace trainyard::snapshot
