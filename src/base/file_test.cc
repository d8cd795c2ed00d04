#include "base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/unprivileged.h"

namespace trainyard {
namespace {

unsigned mode_of(const fs::path& path) {
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void put(const fs::path& path, std::string_view text) { std::ofstream(path) << text; }

TEST_CASE("an fd is closed once, by whoever owns it last") {
  Fd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  Fd second = std::move(first);
  CHECK(!first);  // NOLINT(bugprone-use-after-move): that it is empty is the promise.
  CHECK(second.get() == number);
  CHECK(fcntl(number, F_GETFD) >= 0);
  second = Fd();
  CHECK(fcntl(number, F_GETFD) < 0);
}

TEST_CASE("a file that is not there is named in the error") {
  const auto fd = open_file("/no/such/file", O_RDONLY);
  REQUIRE(!fd);
  CHECK(fd.error().kind == ErrorKind::not_found);
  CHECK(fd.error().message == "open /no/such/file: No such file or directory");
}

TEST_CASE("a file is written whole, with its mode, and leaves nothing beside it") {
  const TempDir dir;
  const fs::path path = dir.path() / "x";
  const std::string bytes(200'000, 'x');
  REQUIRE(write_file(path, bytes, 0600).has_value());
  CHECK(read_file(path) == bytes);
  CHECK(mode_of(path) == 0600);
  REQUIRE(write_file(path, std::string_view("a\0b", 3), 0644, Durable::yes).has_value());
  CHECK(read_file(path) == std::string("a\0b", 3));
  CHECK(mode_of(path) == 0644);
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a file that cannot be put in its place leaves nothing beside it") {
  const TempDir dir;
  fs::create_directory(dir.path() / "x");
  CHECK(!write_file(dir.path() / "x", "text"));
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
  CHECK(write_file(dir.path() / "no" / "x", "text").error().kind == ErrorKind::not_found);
}

TEST_CASE("bytes are read and written at an offset") {
  const TempDir dir;
  const auto fd = open_file(dir.path() / "x", O_RDWR | O_CREAT);
  REQUIRE(fd);
  REQUIRE(write_all(fd->get(), "0123456789", "x").has_value());
  REQUIRE(write_all_at(fd->get(), "ab", 4, "x").has_value());
  CHECK(read_at(fd->get(), 3, 4, "x") == "3ab6");
  CHECK(read_at(fd->get(), 8, 100, "x") == "89");
  CHECK(read_at(fd->get(), 50, 10, "x") == "");
  CHECK(file_size(fd->get(), "x") == 10u);
}

TEST_CASE("a write to a full disk says so") {
  const auto full = open_file("/dev/full", O_WRONLY);
  REQUIRE(full);
  CHECK(write_all(full->get(), "x", "write x").error().kind == ErrorKind::no_space);
}

TEST_CASE("folders are made with all above them, and again for nothing") {
  const TempDir dir;
  const fs::path deep = dir.path() / "a" / "b" / "c";
  REQUIRE(make_dirs(deep, 0700).has_value());
  CHECK(mode_of(dir.path() / "a") == 0700);
  CHECK(make_dirs(deep, 0700).has_value());
  put(dir.path() / "file", "");
  CHECK(make_dirs(dir.path() / "file").error().kind == ErrorKind::conflict);
  CHECK(!make_dirs(dir.path() / "file" / "x"));
}

TEST_CASE("a tree is removed whatever modes its folders have") {
  const Unprivileged nobody;
  const TempDir dir;
  const fs::path tree = dir.path() / "tree";
  fs::create_directories(tree / "closed" / "inside");
  fs::create_directories(tree / "read_only" / "inside");
  put(tree / "closed" / "file", "");
  put(tree / "read_only" / "file", "");
  chmod((tree / "closed").c_str(), 0000);
  chmod((tree / "read_only").c_str(), 0555);
  chmod(tree.c_str(), 0500);
  REQUIRE(remove_tree(tree).has_value());
  CHECK(!fs::exists(tree));
}

TEST_CASE("a symbolic link is removed and never followed") {
  const TempDir dir;
  fs::create_directories(dir.path() / "precious");
  put(dir.path() / "precious" / "file", "kept");
  fs::create_directories(dir.path() / "tree");
  fs::create_directory_symlink(dir.path() / "precious", dir.path() / "tree" / "link");
  fs::create_symlink("nowhere", dir.path() / "tree" / "dangling");
  fs::create_directory_symlink(dir.path() / "precious", dir.path() / "link");
  CHECK(remove_tree(dir.path() / "tree").has_value());
  CHECK(remove_tree(dir.path() / "link").has_value());
  CHECK(read_file(dir.path() / "precious" / "file") == "kept");
  CHECK(!fs::exists(dir.path() / "tree"));
  CHECK(!fs::is_symlink(dir.path() / "link"));
}

TEST_CASE("a tree deeper than there are open files is removed") {
  const TempDir dir;
  const fs::path tree = dir.path() / "tree";
  fs::create_directory(tree);
  Fd at(::open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(mkdirat(at.get(), "d", 0777) == 0);
    REQUIRE(mkdirat(at.get(), "e", 0777) == 0);
    at = Fd(openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at);
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlimit few{.rlim_cur = 256, .rlim_max = files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const Status removed = remove_tree(tree);
  setrlimit(RLIMIT_NOFILE, &files);
  CHECK_MESSAGE(removed.has_value(), (removed ? "" : removed.error().message));
  CHECK(!fs::exists(tree));
}

TEST_CASE("removing what is not there is fine") {
  const TempDir dir;
  CHECK(remove_tree(dir.path() / "nothing").has_value());
  CHECK(remove_tree(dir.path() / "no" / "thing").has_value());
}

TEST_CASE("a temporary folder is gone at its end") {
  fs::path path;
  {
    const TempDir dir;
    path = dir.path();
    put(path / "file", "");
    CHECK(mode_of(path) == 0700);
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("a relative path of plain parts is let through") {
  for (const char* path : {"a", "a/b", "a b/ü/...", "..a/b..", ".hidden", "-"}) {
    CAPTURE(path);
    CHECK(check_relative_path(path).has_value());
  }
}

TEST_CASE("a path that could leave its folder is refused") {
  using namespace std::string_view_literals;
  for (const std::string_view path :
       {""sv, "/"sv, "/etc/passwd"sv, ".."sv, "../x"sv, "a/../b"sv, "a/.."sv, "."sv, "./a"sv,
        "a/./b"sv, "a//b"sv, "a/"sv, "a\0b"sv}) {
    CAPTURE(path);
    const Status status = check_relative_path(path);
    REQUIRE(!status);
    CHECK(status.error().kind == ErrorKind::invalid);
  }
}

TEST_CASE("only a plain file is opened for reading, and a FIFO that nobody writes to at once") {
  const TempDir dir;
  put(dir.path() / "plain", "text");
  REQUIRE(mkfifo((dir.path() / "fifo").c_str(), 0600) == 0);
  CHECK(open_regular(dir.path() / "plain"));
  for (const fs::path& other : {dir.path() / "fifo", dir.path(), fs::path("/dev/zero")}) {
    CAPTURE(other);
    const auto opened = open_regular(other);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().kind == ErrorKind::invalid);
  }
  CHECK(open_regular(dir.path() / "none").error().kind == ErrorKind::not_found);
}

TEST_CASE("what is opened below a folder stays there, whatever the links say") {
  const TempDir dir;
  const fs::path folder = dir.path() / "folder";
  REQUIRE(make_dirs(folder / "sub"));
  put(dir.path() / "outside", "secret");
  put(folder / "sub/inside", "text");
  fs::create_symlink("sub/inside", folder / "good");
  fs::create_symlink("../outside", folder / "out");
  fs::create_symlink(dir.path() / "outside", folder / "absolute");
  fs::create_directory_symlink("..", folder / "up");
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  const Fd top = open_file(folder, O_RDONLY | O_DIRECTORY).value();
  CHECK(open_beneath(top.get(), "sub/inside"));
  CHECK(open_beneath(top.get(), "good"));
  CHECK(open_beneath(top.get(), "sub", O_DIRECTORY));
  for (const char* path : {"out", "absolute", "up/outside", "../outside", "/etc/passwd"}) {
    CAPTURE(path);
    const auto opened = open_beneath(top.get(), path);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().kind == ErrorKind::denied);
  }
  CHECK(open_beneath(top.get(), "fifo").error().kind == ErrorKind::invalid);
  CHECK(open_beneath(top.get(), "none").error().kind == ErrorKind::not_found);
}

}  // namespace
}  // namespace trainyard
