#include "base/private_copy.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace trainyard;

TEST_CASE("a private copy has folders and plain files, and nothing that leads elsewhere") {
  TempDir dir;
  const fs::path from = dir.path() / "from";
  REQUIRE(make_dirs(from / "a" / "b"));
  REQUIRE(write_file(dir.path() / "secret", "key"));
  REQUIRE(write_file(from / "plain", "one"));
  REQUIRE(write_file(from / "a" / "b" / "deep", std::string(3'000'000, 'x')));
  fs::create_symlink(dir.path() / "secret", from / "link");
  fs::create_directory_symlink(dir.path(), from / "folder_link");
  fs::create_hard_link(dir.path() / "secret", from / "second_name");
  REQUIRE(mkfifo((from / "fifo").c_str(), 0600) == 0);

  const fs::path to = dir.path() / "to";
  const auto copied = copy_private(from, to);
  REQUIRE_MESSAGE(copied, (copied ? "" : copied.error().message));
  CHECK(copied->files == 2);
  CHECK(copied->left_out == 4);
  CHECK(read_file(to / "plain").value() == "one");
  CHECK(read_file(to / "a" / "b" / "deep").value().size() == 3'000'000);
  for (const char* name : {"link", "folder_link", "second_name", "fifo"}) {
    CHECK_FALSE(fs::exists(fs::symlink_status(to / name)));
  }
  struct stat status{};
  REQUIRE(stat((to / "plain").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a private copy is of a folder itself, not of one that a link names, and is new") {
  TempDir dir;
  REQUIRE(make_dirs(dir.path() / "from"));
  fs::create_directory_symlink(dir.path() / "from", dir.path() / "link");
  CHECK_FALSE(copy_private(dir.path() / "link", dir.path() / "to"));
  CHECK_FALSE(copy_private(dir.path() / "nothing", dir.path() / "to"));
  REQUIRE(make_dirs(dir.path() / "there"));
  CHECK_FALSE(copy_private(dir.path() / "from", dir.path() / "there"));
}
