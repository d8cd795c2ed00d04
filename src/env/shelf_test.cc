#include "env/shelf.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace trainyard::env {
namespace {

const std::string kHash(64, 'a');
const std::string kOther(64, 'b');

Shelf::Make making(uint64_t bytes = 100) {
  return [bytes](const fs::path& folder) -> Result<Realised> {
    TRY(make_dirs(folder / "root"));
    TRY(write_file(folder / "root" / "file", "whole"));
    return Realised{.kind = EnvironmentKind::venv, .lock = {"numpy==1.26.4"}, .bytes = bytes};
  };
}

Result<Realised> never(const fs::path& /*folder*/) {
  return fail(ErrorKind::internal, "was asked to make it again");
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    found.push_back(entry.path().filename());
  }
  std::ranges::sort(found);
  return found;
}

// As if it had been used last that many seconds ago.
void used_ago(const fs::path& shelf, const std::string& hash, int64_t ago_s) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_sec -= ago_s;
  const std::array<timespec, 2> times{now, now};
  REQUIRE(utimensat(AT_FDCWD, (shelf / (hash + ".lock")).c_str(), times.data(), 0) == 0);
}

int exit_code_of(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("what was made is found, with its lock, and is not made again") {
  const TempDir temp;
  const Shelf shelf(temp.path() / "environments");
  REQUIRE(shelf.find(kHash));
  CHECK(!*shelf.find(kHash));
  CHECK(!fs::exists(temp.path() / "environments"));
  {
    const auto made = shelf.make(kHash, making());
    REQUIRE(made);
    CHECK(made->realised.hash == kHash);
    CHECK(read_file(made->folder / "root" / "file").value() == "whole");
  }
  const auto found = shelf.find(kHash);
  REQUIRE(found);
  REQUIRE(*found);
  CHECK((*found)->realised.lock == std::vector<std::string>{"numpy==1.26.4"});
  CHECK((*found)->folder == temp.path() / "environments" / kHash);
  CHECK(shelf.make(kHash, never));
  CHECK(!*shelf.find(kOther));
  CHECK(names(temp.path() / "environments") == std::vector<std::string>{kHash, kHash + ".lock"});
}

TEST_CASE("a name that is no hash never becomes a path") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  for (const std::string bad : {"", "../../etc", "abc"}) {
    CHECK(shelf.find(bad).error().kind == ErrorKind::invalid);
    CHECK(shelf.make(bad, never).error().kind == ErrorKind::invalid);
  }
}

TEST_CASE("what fails half-way leaves nothing, and can be made the next time") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  const auto failed = shelf.make(kHash, [](const fs::path& folder) -> Result<Realised> {
    TRY(write_file(folder / "half", "x"));
    return fail(ErrorKind::invalid, "there is no such package");
  });
  REQUIRE(!failed);
  CHECK(failed.error().message == "there is no such package");
  CHECK(names(temp.path()) == std::vector<std::string>{kHash + ".lock"});
  CHECK(shelf.make(kHash, making()));
}

TEST_CASE("a maker that is killed half-way holds nobody up, and what it left is swept") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  const pid_t child = fork();
  if (child == 0) {
    static_cast<void>(shelf.make(kHash, [&](const fs::path& folder) -> Result<Realised> {
      static_cast<void>(write_file(folder / "half", "x"));
      static_cast<void>(::write(ends[1], "!", 1) == 1);
      for (;;) ::pause();
    }));
    _exit(1);
  }
  char ready = 0;
  REQUIRE(::read(ends[0], &ready, 1) == 1);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(!*shelf.find(kHash));
  REQUIRE(shelf.trim(0));
  CHECK(names(temp.path()).size() == 2);  // Its lock is held: what it makes is its own.
  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK(exit_code_of(child) == 128 + SIGKILL);
  CHECK(!*shelf.find(kHash));
  SUBCASE("by who makes it next") {
    REQUIRE(shelf.make(kHash, making()));
    CHECK(names(temp.path()) == std::vector<std::string>{kHash, kHash + ".lock"});
  }
  SUBCASE("by trim") {
    REQUIRE(shelf.trim(1'000'000));
    CHECK(names(temp.path()).empty());
  }
}

TEST_CASE("of two processes that want the same at once, one makes it and the other gets it") {
  const TempDir temp;
  const Shelf shelf(temp.path() / "environments");
  const fs::path count = temp.path() / "count";
  std::array<pid_t, 4> children{};
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    const auto held = shelf.make(kHash, [&](const fs::path& folder) -> Result<Realised> {
      TRY_SET(const Fd fd, open_file(count, O_WRONLY | O_CREAT | O_APPEND));
      TRY(write_all(fd.get(), "x", "count"));
      ::poll(nullptr, 0, 100);  // The others come while it is being made.
      return making()(folder);
    });
    _exit(held && read_file(held->folder / "root" / "file").value_or("") == "whole" ? 0 : 1);
  }
  for (const pid_t child : children) CHECK(exit_code_of(child) == 0);
  CHECK(read_file(count).value() == "x");
}

TEST_CASE("who waits for a maker that fails makes it itself") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  std::jthread other([&] {
    static_cast<void>(shelf.make(kHash, [&](const fs::path&) -> Result<Realised> {
      CHECK(::write(ends[1], "!", 1) == 1);
      ::poll(nullptr, 0, 50);
      return fail(ErrorKind::unavailable, "no network");
    }));
  });
  char ready = 0;
  REQUIRE(::read(ends[0], &ready, 1) == 1);
  CHECK(shelf.make(kHash, making()));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("trim takes those that were used longest ago, and never one in use") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  const std::string third(64, 'c');
  for (const std::string& hash : {kHash, kOther, third}) REQUIRE(shelf.make(hash, making(100)));
  used_ago(temp.path(), kHash, 300);
  used_ago(temp.path(), kOther, 200);
  used_ago(temp.path(), third, 100);
  SUBCASE("as many as it takes") {
    const auto trimmed = shelf.trim(250);
    REQUIRE(trimmed);
    CHECK(trimmed->environments == 1);
    CHECK(trimmed->bytes == 100);
    CHECK(!*shelf.find(kHash));
    CHECK(*shelf.find(kOther));
    CHECK(!fs::exists(temp.path() / (kHash + ".lock")));
  }
  SUBCASE("a use makes it the newest") {
    CHECK(*shelf.find(kHash));
    REQUIRE(shelf.trim(100));
    CHECK(*shelf.find(kHash));
    CHECK(!*shelf.find(third));
  }
  SUBCASE("but one that is held") {
    auto held = shelf.find(kHash);
    used_ago(temp.path(), kHash, 300);
    REQUIRE(shelf.trim(0)->environments == 2);
    CHECK(fs::exists(temp.path() / kHash / "root" / "file"));
    held->reset();
    CHECK(shelf.trim(0)->environments == 1);
    CHECK(names(temp.path()).empty());
  }
}

TEST_CASE("one that is not whole is made anew") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  REQUIRE(shelf.make(kHash, making()));
  REQUIRE(write_file(temp.path() / kHash / "environment.json", ""));
  CHECK(!*shelf.find(kHash));
  CHECK(shelf.make(kHash, making()));
  CHECK(*shelf.find(kHash));
}

TEST_CASE("one that was made before the power went is made anew, unless it was on the disk") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  const fs::path boot = temp.path() / kHash / "boot";
  REQUIRE(shelf.make(kHash, making()));
  REQUIRE(fs::exists(boot));
  SUBCASE("it was not") {
    REQUIRE(write_file(boot, "the boot before"));
    CHECK(!*shelf.find(kHash));
    CHECK(shelf.make(kHash, making()));
    CHECK(*shelf.find(kHash));
  }
  SUBCASE("it was not, and nobody wants it") {
    REQUIRE(write_file(boot, "the boot before"));
    REQUIRE(shelf.trim(1'000'000));
    CHECK(names(temp.path()).empty());
  }
  SUBCASE("it was") {
    REQUIRE(shelf.trim(1'000'000));
    CHECK(!fs::exists(boot));
    CHECK(*shelf.find(kHash));
  }
}

TEST_CASE("what is new of it is kept") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  const auto held = shelf.make(kHash, making());
  REQUIRE(held);
  Realised realised = held->realised;
  realised.tree = kOther;
  REQUIRE(shelf.update(*held, realised));
  CHECK((*shelf.find(kHash))->realised.tree == kOther);
}

TEST_CASE("one that is of no use any more is taken away, unless it is in use or another since") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  Realised useless;
  {
    const auto held = shelf.make(kHash, making());
    REQUIRE(held);
    useless = held->realised;
    REQUIRE(shelf.discard(useless));
    CHECK(*shelf.find(kHash));
    Realised other = useless;
    other.image = "sha256:1";
    REQUIRE(shelf.update(*held, other));
  }
  REQUIRE(shelf.discard(useless));
  CHECK(*shelf.find(kHash));
  useless.image = "sha256:1";
  REQUIRE(shelf.discard(useless));
  CHECK(!*shelf.find(kHash));
  REQUIRE(shelf.discard(useless));
  CHECK(shelf.make(kHash, making()));
}

TEST_CASE("whoever wants to know is told of those that are trimmed, and of no others") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  for (const std::string& hash : {kHash, kOther}) REQUIRE(shelf.make(hash, making(100)));
  used_ago(temp.path(), kHash, 100);
  std::vector<std::string> told;
  const auto leaves = [&](const Realised& realised) {
    told.push_back(realised.hash);
    CHECK(fs::exists(shelf.place(realised.hash)));
  };
  REQUIRE(shelf.trim(150, leaves));
  CHECK(told == std::vector<std::string>{kHash});
}

TEST_CASE("a full disk is told as one, and nothing half-made stays on it") {
  const TempDir temp;
  constexpr int kNotAllowed = 77;
  const pid_t child = fork();
  if (child == 0) {
    // A small disk of our own, gone with this process.
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      _exit(kNotAllowed);
    }
    static_cast<void>(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    if (::mount("disk", temp.path().c_str(), "tmpfs", 0, "size=256k") != 0) _exit(kNotAllowed);
    const Shelf shelf(temp.path());
    const auto made = shelf.make(kHash, [](const fs::path& folder) -> Result<Realised> {
      TRY(write_file(folder / "large", std::string(1024 * 1024, 'x')));
      return Realised{};
    });
    if (made || made.error().kind != ErrorKind::no_space) _exit(1);
    if (names(temp.path()) != std::vector<std::string>{kHash + ".lock"}) _exit(2);
    _exit(shelf.make(kHash, making()) ? 0 : 3);
  }
  const int code = exit_code_of(child);
  if (code == kNotAllowed) {
    MESSAGE("skipped: a disk cannot be mounted here");
  } else {
    CHECK(code == 0);
  }
}

TEST_CASE("finding it costs no more than 2 ms, among 500 others") {
  const TempDir temp;
  const Shelf shelf(temp.path());
  for (int i = 0; i < 500; ++i) {
    std::string hash(64, '0');
    const std::string number = std::to_string(i);
    hash.replace(0, number.size(), number);
    REQUIRE(make_dirs(temp.path() / hash));
  }
  REQUIRE(shelf.make(kHash, making()));
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 20; ++i) {
    const auto began = std::chrono::steady_clock::now();
    REQUIRE(*shelf.find(kHash));
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - began);
  }
  CHECK(best <= std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace trainyard::env
