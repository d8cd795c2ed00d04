#include "runtime/memory_group.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/id.h"
#include "runtime/proc_table.h"

using namespace trainyard;
using namespace trainyard::runtime;

namespace {

constexpr size_t kMegabyte = 1 << 20;

// A child that takes so much memory when it is told to, and then sleeps.
class Eater {
 public:
  explicit Eater(size_t bytes) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    go_ = Fd(ends[1]);
    const Fd wait(ends[0]);
    pid_ = fork();
    if (pid_ == 0) {
      char byte = 0;
      if (read(wait.get(), &byte, 1) != 1) _exit(1);
      std::vector<char> taken(bytes, 'x');
      for (;;) pause();
    }
  }
  ~Eater() { end(); }
  void go() { REQUIRE(write(go_.get(), "x", 1) == 1); }
  pid_t pid() const { return pid_; }
  // How it was killed; 0: we ended it.
  int wait_for_signal() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  void end() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Fd go_;
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("the kernel ends what needs more than its group may have") {
  Eater eater(200 * kMegabyte);
  const auto group =
      MemoryGroup::make("trainyard-test-" + new_secret(""), 50 * kMegabyte, {eater.pid()});
  if (!group) {
    MESSAGE("skipped: " << group.error().message);
    return;
  }
  CHECK(!group->ran_out());
  eater.go();
  CHECK(eater.wait_for_signal() == SIGKILL);
  CHECK(group->ran_out());
}

TEST_CASE("of version 2 a group is made beside ours, where the memory controller is handed on") {
  TempDir dir;
  const fs::path slice = dir.path() / "slice";
  REQUIRE(make_dirs(slice / "job"));
  REQUIRE(make_dirs(dir.path() / "self"));
  REQUIRE(write_file(dir.path() / "self" / "cgroup", "0::/slice/job\n"));
  REQUIRE(write_file(dir.path() / "self" / "mountinfo",
                     "30 24 0:26 / " + dir.path().string() + " rw - cgroup2 cgroup2 rw\n"));
  REQUIRE(write_file(slice / "job" / "cgroup.type", "domain\n"));
  REQUIRE(write_file(slice / "cgroup.subtree_control", "cpu pids\n"));
  const auto refused = MemoryGroup::make("g", 1, {}, dir.path());
  REQUIRE(!refused);
  CHECK(refused.error().message == slice.string() + " hands on no memory controller");
  REQUIRE(write_file(slice / "cgroup.subtree_control", "cpu memory\n"));
  // A plain folder has none of the kernel's files: nothing is left of the try.
  const auto failed = MemoryGroup::make("g", 1, {}, dir.path());
  REQUIRE(!failed);
  CHECK(failed.error().message.contains((slice / "g" / "memory.max").string()));
  CHECK(!fs::exists(slice / "g"));
}

TEST_CASE("pages that processes share count once where that decides") {
  std::vector<char> shared(60 * kMegabyte, 'x');
  const pid_t parent = fork();
  if (parent == 0) {
    for (int i = 0; i < 3; ++i) {
      if (fork() == 0) {
        for (;;) pause();
      }
    }
    for (;;) pause();
  }
  const auto sum = [&] { return memory_below(getpid(), INT64_MAX); };
  while (sum() < static_cast<int64_t>(200 * kMegabyte)) poll(nullptr, 0, 1);
  CHECK(memory_below(getpid(), 0) < static_cast<int64_t>(150 * kMegabyte));
  for (const ProcessRow& row : descendants(read_processes(), parent)) kill(row.pid, SIGKILL);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
}
