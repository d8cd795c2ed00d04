#include "seal/box.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <type_traits>
#include <vector>

#include "tests/support/unprivileged.h"

namespace trainyard::seal {
namespace {

static_assert(!std::is_copy_constructible_v<SecretText>);
static_assert(!std::is_copy_assignable_v<SecretText>);
static_assert(!std::is_copy_constructible_v<Box>);

unsigned mode_of(const fs::path& path) {
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

TEST_CASE("what is sealed opens again, whatever bytes it has") {
  const TempDir folder;
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(box);
  for (const std::string& plain : {std::string("hunter2"), std::string(),
                                   std::string("\0\xff\n", 3), std::string(100'000, 'x')}) {
    const std::string sealed = box->seal(plain, "default/TOKEN");
    const auto opened = box->open(sealed, "default/TOKEN");
    REQUIRE(opened);
    CHECK(opened->view() == plain);
  }
}

TEST_CASE("a signature holds for one text and one key") {
  const TempDir folder;
  const auto box = Box::open(folder.path() / "key");
  const auto other = Box::open(folder.path() / "other");
  REQUIRE(box);
  REQUIRE(other);
  const std::string signature = box->sign("run/a.txt");
  CHECK(signature.size() == 64);
  CHECK(box->is_signed("run/a.txt", signature));
  CHECK_FALSE(box->is_signed("run/b.txt", signature));
  CHECK_FALSE(box->is_signed("run/a.txt", ""));
  CHECK_FALSE(box->is_signed("run/a.txt", signature + "0"));
  CHECK_FALSE(other->is_signed("run/a.txt", signature));
}

TEST_CASE("a sealed value shows nothing of it, and is another every time") {
  const TempDir folder;
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(box);
  const std::string sealed = box->seal("hunter2hunter2", "name");
  CHECK(sealed.find("hunter2") == std::string::npos);
  CHECK(sealed.find("name") == std::string::npos);
  CHECK(sealed != box->seal("hunter2hunter2", "name"));
}

TEST_CASE("a key stays: a box opened later opens what an earlier one sealed") {
  const TempDir folder;
  std::string sealed;
  {
    const auto box = Box::open(folder.path() / "key");
    REQUIRE(box);
    sealed = box->seal("hunter2", "name");
  }
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(box);
  const auto opened = box->open(sealed, "name");
  REQUIRE(opened);
  CHECK(opened->view() == "hunter2");
}

TEST_CASE("a change to any byte of a sealed value is found out") {
  const TempDir folder;
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(box);
  const std::string sealed = box->seal("hunter2", "name");
  for (size_t i = 0; i < sealed.size(); ++i) {
    for (const char bit : {'\x01', '\x80'}) {
      std::string changed = sealed;
      changed[i] = static_cast<char>(changed[i] ^ bit);
      CHECK_MESSAGE(!box->open(changed, "name"), "byte ", i);
    }
    CHECK_MESSAGE(!box->open(sealed.substr(0, i), "name"), "cut after ", i);
  }
  CHECK(!box->open(sealed + "x", "name"));
  CHECK(box->open(sealed, "name"));
}

TEST_CASE("a sealed value opens under its own name only") {
  const TempDir folder;
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(box);
  const std::string sealed = box->seal("hunter2", "default/A");
  CHECK(!box->open(sealed, "default/B"));
  CHECK(!box->open(sealed, "default/"));
  CHECK(!box->open(sealed, ""));
  CHECK(box->open(sealed, "default/B").error().kind == ErrorKind::invalid);
}

TEST_CASE("another key opens nothing") {
  const TempDir folder;
  const auto ours = Box::open(folder.path() / "ours");
  const auto other = Box::open(folder.path() / "other");
  REQUIRE(ours);
  REQUIRE(other);
  CHECK(!other->open(ours->seal("hunter2", "name"), "name"));
}

TEST_CASE("a new key is for its owner alone, and nothing else is left beside it") {
  const TempDir folder;
  const mode_t before = umask(0);
  REQUIRE(Box::open(folder.path() / "key"));
  umask(before);
  CHECK(mode_of(folder.path() / "key") == 0600);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++files;
  CHECK(files == 1);
}

TEST_CASE("a key that others can read is refused with what to do") {
  const TempDir folder;
  const fs::path path = folder.path() / "key";
  REQUIRE(Box::open(path));
  for (const unsigned mode : {0640U, 0604U, 0620U}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const auto box = Box::open(path);
    REQUIRE(!box);
    CHECK(box.error().kind == ErrorKind::denied);
    CHECK(box.error().hint.find("chmod 600 " + path.string()) != std::string::npos);
  }
  REQUIRE(chmod(path.c_str(), 0400) == 0);
  CHECK(Box::open(path));
}

TEST_CASE("a key of the wrong size is refused and stays as it is") {
  const TempDir folder;
  const fs::path path = folder.path() / "key";
  for (const std::string& bytes : {std::string(), std::string(31, 'k'), std::string(33, 'k')}) {
    REQUIRE(write_file(path, bytes, 0600));
    const auto box = Box::open(path);
    REQUIRE(!box);
    CHECK(box.error().kind == ErrorKind::invalid);
    CHECK(*read_file(path) == bytes);
  }
}

TEST_CASE("a folder or a pipe in the key's place is refused and waited for by nobody") {
  const TempDir folder;
  REQUIRE(make_dirs(folder.path() / "folder", 0700));
  CHECK(!Box::open(folder.path() / "folder"));
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(!Box::open(folder.path() / "pipe"));
}

TEST_CASE("a key that cannot be made is an error that names it") {
  const TempDir folder;
  REQUIRE(chmod(folder.path().c_str(), 0555) == 0);
  const Unprivileged unprivileged;
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(!box);
  CHECK(box.error().kind == ErrorKind::denied);
  CHECK(box.error().message.find((folder.path() / "key").string()) != std::string::npos);
}

TEST_CASE("processes that make the key at once all get the same") {
  constexpr int kProcesses = 8;
  const TempDir folder;
  int gate[2];
  REQUIRE(pipe(gate) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(gate[1]);
      char byte = 0;
      if (read(gate[0], &byte, 1) != 0) _exit(3);  // All begin when the gate closes.
      const auto box = Box::open(folder.path() / "key");
      if (!box) _exit(1);
      const fs::path path = folder.path() / ("sealed" + std::to_string(i));
      _exit(write_file(path, box->seal("mine", "name")) ? 0 : 2);
    }
    children.push_back(child);
  }
  close(gate[0]);
  close(gate[1]);
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const auto box = Box::open(folder.path() / "key");
  REQUIRE(box);
  for (int i = 0; i < kProcesses; ++i) {
    const auto sealed = read_file(folder.path() / ("sealed" + std::to_string(i)));
    REQUIRE(sealed);
    CHECK(box->open(*sealed, "name"));
  }
}

TEST_CASE("a secret text is moved, not shared") {
  SecretText first("hunter2");
  SecretText second(std::move(first));
  CHECK(second.view() == "hunter2");
  first = SecretText("other");
  first = std::move(second);
  CHECK(first.view() == "hunter2");
  CHECK(SecretText().view().empty());
  CHECK(SecretText("").view().empty());
}

TEST_CASE("wiping zeroes a string where it lies") {
  std::string text(1000, 'x');
  const char* const there = text.data();
  wipe(text);
  CHECK(text.empty());
  CHECK(text.data() == there);
  CHECK(std::string_view(there, 1000) == std::string(1000, '\0'));
}

TEST_CASE("a hidden process leaves no core dump, and its limit is as before") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit before{};
    rlimit after{};
    getrlimit(RLIMIT_CORE, &before);
    hide_from_core_dumps();
    getrlimit(RLIMIT_CORE, &after);
    const bool same = before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max;
    _exit(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 && same ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace trainyard::seal
