#include "runtime/container_meter.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "runtime/proc_table.h"

namespace trainyard::runtime {
namespace {

constexpr const char* kId = "0123456789abcdef0123";

constexpr const char* kMounts =
    "30 24 0:26 / /sys/fs/cgroup ro shared:4 - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw\n"
    "36 30 0:32 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "37 30 0:33 /inner /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";

// A /proc in which one process of ours has the groups that a test says.
struct FakeProc {
  TempDir dir;
  pid_t pid = 0;

  explicit FakeProc(const std::string& groups, const std::string& mounts = "") {
    SpawnOptions options;
    options.command = {"/bin/sleep", "1000"};
    child = spawn(options).value();
    pid = child.pid;
    write(std::to_string(pid) + "/cgroup", groups);
    write("self/mountinfo", mounts);
  }
  ~FakeProc() {
    if (child.pid > 0) end();
  }
  void end() {
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    child.pid = 0;
  }
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = dir.path() / name;
    REQUIRE(make_dirs(path.parent_path()));
    REQUIRE(write_file(path, text));
  }
  Result<ContainerMeter> open() const { return ContainerMeter::open({kId, pid}, dir.path()); }

  Child child;
};

}  // namespace

TEST_CASE("a container is named by its id and its first process, and nothing else will do") {
  CHECK(parse_container_process("0123456789ab 77\n").value() ==
        ContainerProcess{"0123456789ab", 77});
  for (const char* text :
       {"", "0123456789ab", "0123456789ab 0", "0123456789ab x", "short 7", "0123456789ab 7 8"}) {
    CHECK(parse_container_process(text).error().kind == ErrorKind::invalid);
  }
}

TEST_CASE("a control group is where its hierarchy is mounted, of either version") {
  const std::string groups = "5:memory:/inner/docker/x\n4:cpu,cpuacct:/docker/x\n0::/docker/x\n";
  const auto cpu = find_control_group(groups, kMounts, "cpuacct");
  REQUIRE(cpu);
  CHECK(cpu->folder == "/sys/fs/cgroup/cpu,cpuacct/docker/x");
  CHECK_FALSE(cpu->unified);
  // Only a part of it is shown there.
  CHECK(find_control_group(groups, kMounts, "memory")->folder == "/sys/fs/cgroup/memory/docker/x");
  CHECK_FALSE(find_control_group("5:memory:/other/x\n", kMounts, "memory"));
  const auto unified = find_control_group("0::/system.slice/docker-x.scope\n", kMounts, "memory");
  REQUIRE(unified);
  CHECK(unified->folder == "/sys/fs/cgroup/unified/system.slice/docker-x.scope");
  CHECK(unified->unified);
  CHECK_FALSE(find_control_group("0::/../x\n", kMounts, "memory"));
  CHECK_FALSE(find_control_group("0::/x\n", "", "memory"));
}

TEST_CASE("what a container uses is what its control groups say") {
  const std::string id = kId;
  const TempDir groups;
  SUBCASE("of version 2") {
    const std::string mounts = "31 30 0:27 / " + groups.path().string() + " rw - cgroup2 none rw\n";
    const FakeProc proc("0::/docker-" + id + ".scope\n", mounts);
    const fs::path own = groups.path() / ("docker-" + id + ".scope");
    REQUIRE(make_dirs(own));
    REQUIRE(write_file(own / "cpu.stat", "usage_usec 2500000\nuser_usec 1\n"));
    REQUIRE(write_file(own / "memory.stat", "anon 1000\nfile 9000\nfile_mapped 24\n"));
    const Usage usage = proc.open().value().read().value();
    CHECK(usage.cpu_seconds == doctest::Approx(2.5));
    CHECK(usage.memory_bytes == 1024);
  }
  SUBCASE("of version 1") {
    const std::string mounts =
        "36 30 0:32 / " + groups.path().string() + " rw - cgroup cgroup rw,cpuacct,memory\n";
    const FakeProc proc("5:memory:/docker/" + id + "\n4:cpuacct:/docker/" + id + "\n", mounts);
    const fs::path own = groups.path() / "docker" / id;
    REQUIRE(make_dirs(own));
    REQUIRE(write_file(own / "cpuacct.usage", "1500000000\n"));
    REQUIRE(write_file(own / "memory.stat", "rss 1\ntotal_rss 2000\ntotal_mapped_file 48\n"));
    const Usage usage = proc.open().value().read().value();
    CHECK(usage.cpu_seconds == doctest::Approx(1.5));
    CHECK(usage.memory_bytes == 2048);
  }
}

TEST_CASE("without a control group of its own a container is the tree of its processes") {
  FakeProc proc("0::/user.slice\n", kMounts);
  // Not the container's, until what watches it says so.
  CHECK(proc.open().error().kind == ErrorKind::not_found);
  proc.write(std::to_string(getpid()) + "/cmdline", std::string("conmon\0-c\0", 10) + kId);
  const auto meter = proc.open();
  REQUIRE(meter.has_value());
  // A program that has only just been started has nothing in memory yet.
  for (int tries = 0; tries < 10'000 && read_process(proc.pid)->memory_bytes == 0; ++tries) {
    ::poll(nullptr, 0, 1);
  }
  const Usage usage = meter->read().value();
  CHECK(usage.memory_bytes > 0);
  CHECK(usage.memory_bytes < 2 * read_process(proc.pid)->memory_bytes);
  proc.end();
  CHECK(meter->read().error().kind == ErrorKind::not_found);
}

}  // namespace trainyard::runtime
