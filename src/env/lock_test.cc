#include "env/lock.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

void write_package(const fs::path& root, const std::string& folder, const std::string& metadata,
                   const std::string& url = {}, const std::string& installer = "uv\n") {
  const fs::path info = root / "lib/python3.11/site-packages" / (folder + ".dist-info");
  REQUIRE(make_dirs(info));
  REQUIRE(write_file(info / "METADATA", metadata));
  REQUIRE(write_file(info / "INSTALLER", installer));
  if (!url.empty()) REQUIRE(write_file(info / "direct_url.json", url));
}

TEST_CASE("the lock is what the packages say of themselves, sorted") {
  const TempDir temp;
  write_package(temp.path(), "zzz-1", "Metadata-Version: 2.1\nName: zzz\nVersion: 1.0.post1\n\n");
  write_package(temp.path(), "Jinja_Two-3", "Name: Jinja_Two\r\nVersion: 3.1\r\n\r\nName: no\n");
  write_package(temp.path(), "git-1", "Name: git\nVersion: 1\n",
                R"({"url": "https://x/git.git", "vcs_info": {"vcs": "git", "commit_id": "abc",
                    "requested_revision": "main"}})");
  write_package(temp.path(), "wheel-1", "Name: wheel\nVersion: 1\n",
                R"({"url": "https://x/wheel-1.whl", "archive_info": {}})");
  write_package(temp.path(), "broken", "no headers");
  REQUIRE(make_dirs(temp.path() / "lib/python3.11/site-packages/zzz"));
  const auto lock = read_lock(temp.path());
  REQUIRE(lock);
  CHECK(*lock == Lines{"git @ git+https://x/git.git@abc", "jinja-two==3.1",
                       "wheel @ https://x/wheel-1.whl", "zzz==1.0.post1"});
}

TEST_CASE("what another has installed can be left out") {
  const TempDir temp;
  write_package(temp.path(), "a-1", "Name: a\nVersion: 1\n", {}, "conda");
  write_package(temp.path(), "b-1", "Name: b\nVersion: 1\n", {}, "pip\n");
  CHECK(read_lock(temp.path(), "conda").value() == Lines{"b==1"});
  CHECK(read_lock(temp.path() / "none").error().kind == ErrorKind::not_found);
}

TEST_CASE("what is installed are the recipe's lines, or the lock's with the recipe's hashes") {
  Environment environment;
  environment.recipe.requirements = {"a==1 --hash=sha256:00 --hash=sha256:11  # r.txt:1",
                                     "# nothing", "b", "b  # r.txt:9"};
  CHECK(lines_to_install(environment) == Lines{"a==1 --hash=sha256:00 --hash=sha256:11", "b"});
  environment.lock = {"a==1", "b==2", "c @ https://x/c.whl"};
  CHECK(lines_to_install(environment) ==
        Lines{"a==1 --hash=sha256:00 --hash=sha256:11", "b==2", "c @ https://x/c.whl"});
}

}  // namespace
}  // namespace trainyard::env
