#include "base/home.h"

#include <doctest/doctest.h>
#include <linux/magic.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>

#include "tests/support/unprivileged.h"

namespace trainyard {
namespace {

// Sets a variable and puts back what was there.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

unsigned home_mode(const fs::path& path) {
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

TEST_CASE("a home is the flag's, else TRAINYARD_HOME's, else in the user's folder") {
  const Variable user("HOME", "/home/me");
  const Variable none("TRAINYARD_HOME", nullptr);
  CHECK(find_home("")->root() == "/home/me/.trainyard");
  const Variable named("TRAINYARD_HOME", "/data/yard/");
  CHECK(find_home("")->root() == "/data/yard");
  CHECK(find_home("/x/../y")->root() == "/y");
  CHECK(find_home("here")->root() == fs::current_path() / "here");
}

TEST_CASE("without any variable the home is in the user's folder of the system") {
  const Variable user("HOME", nullptr);
  const Variable none("TRAINYARD_HOME", "");
  CHECK(find_home("")->root().filename() == ".trainyard");
}

TEST_CASE("a home's folders are made for their owner only") {
  const TempDir dir;
  const Home home(dir.path() / "deep" / "home");
  REQUIRE(prepare_home(home).has_value());
  CHECK(home_mode(home.root()) == 0700);
  for (const auto& entry : fs::directory_iterator(home.root())) {
    CAPTURE(entry.path());
    CHECK(home_mode(entry.path()) == 0700);
  }
  for (const fs::path& folder : {home.blobs(), home.tmp(), home.runs(), home.node(),
                                 home.log().parent_path(), home.cache()}) {
    CHECK(fs::is_directory(folder));
  }
  CHECK(prepare_home(home).has_value());
}

TEST_CASE("an empty folder becomes ours, one in use keeps its mode") {
  const TempDir dir;
  const Home empty(dir.path() / "empty");
  fs::create_directory(empty.root());
  chmod(empty.root().c_str(), 0755);
  REQUIRE(prepare_home(empty).has_value());
  CHECK(home_mode(empty.root()) == 0700);

  const Home used(dir.path() / "used");
  fs::create_directories(used.root() / "something");
  chmod(used.root().c_str(), 01777);
  REQUIRE(prepare_home(used).has_value());
  CHECK(home_mode(used.root()) == 01777);
}

TEST_CASE("a home without write permission is denied, with what to do") {
  const Unprivileged nobody;
  const TempDir dir;
  const Home home(dir.path() / "home");
  fs::create_directories(home.root() / "x");
  chmod(home.root().c_str(), 0500);
  const Status status = prepare_home(home);
  REQUIRE(!status);
  CHECK(status.error().kind == ErrorKind::denied);
  CHECK(status.error().message.find(home.root().string()) != std::string::npos);
  CHECK(status.error().hint.find("TRAINYARD_HOME") != std::string::npos);

  const Status unmade = prepare_home(Home(home.root() / "x" / ".." / "new"));
  REQUIRE(!unmade);
  CHECK(unmade.error().kind == ErrorKind::denied);
}

TEST_CASE("a home in the place of a file is refused") {
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "file", "").has_value());
  CHECK(prepare_home(Home(dir.path() / "file")).error().kind == ErrorKind::conflict);
}

TEST_CASE("network file systems are known by their magic, this machine's are none") {
  CHECK(network_file_system(NFS_SUPER_MAGIC) == "NFS");
  CHECK(network_file_system(SMB_SUPER_MAGIC) == "SMB");
  CHECK(network_file_system(CIFS_SUPER_MAGIC) == "CIFS");
  CHECK(network_file_system(SMB2_SUPER_MAGIC) == "SMB2");
  CHECK(network_file_system(0x0BD00BD0) == "Lustre");
  CHECK(network_file_system(CEPH_SUPER_MAGIC) == "CephFS");
  CHECK(network_file_system(FUSE_SUPER_MAGIC) == "FUSE");
  for (const uint64_t local : {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC,
                               OVERLAYFS_SUPER_MAGIC, 0x2FC12FC1 /* ZFS */}) {
    CHECK(network_file_system(local) == "");
  }
  CHECK(network_file_system(static_cast<uint32_t>(BTRFS_SUPER_MAGIC)) == "");
}

TEST_CASE("every path of a home lies in it") {
  const Home home("/h");
  const AttemptId attempt{RunId{"a-b-c"}, 2};
  CHECK(home.run(attempt.run) == "/h/runs/a-b-c");
  CHECK(home.attempt(attempt) == "/h/node/a-b-c.2");
  CHECK(home.attempt(attempt, 3) == "/h/node/a-b-c.2-3");
  CHECK(home.log() == "/h/log/server.log");
}

TEST_CASE("whatever was there, others have no right to what is ours") {
  TempDir dir;
  const Home home(dir.path() / "home");
  REQUIRE(prepare_home(home));
  REQUIRE(write_file(home.database(), "db"));
  REQUIRE(write_file(home.secrets_key(), "key"));
  for (const fs::path& path : {home.root(), home.runs(), home.blobs()}) {
    REQUIRE(chmod(path.c_str(), 0755) == 0);
  }
  REQUIRE(chmod(home.database().c_str(), 0666) == 0);
  REQUIRE(chmod(home.secrets_key().c_str(), 0640) == 0);
  const auto changed = tighten_home(home);
  CHECK(changed.size() == 4);
  for (const Tightened& one : changed) CHECK(one.error.empty());
  for (const fs::path& path : {home.root(), home.runs(), home.blobs()}) {
    CHECK(home_mode(path) == 0700);
  }
  CHECK(home_mode(home.database()) == 0600);
  CHECK(home_mode(home.secrets_key()) == 0640);  // Refused when it is used.
  CHECK(tighten_home(home).empty());
  // A folder that many use, such as /tmp, is not closed to them.
  REQUIRE(chmod(home.root().c_str(), 01777) == 0);
  CHECK(tighten_home(home).empty());
  CHECK(home_mode(home.root()) == 01777);
}

}  // namespace
}  // namespace trainyard
