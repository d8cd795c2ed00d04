#include "supervisor/container_usage.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/process.h"
#include "http/test_server.h"

using namespace trainyard;
using namespace trainyard::supervisor;
using http::eventually;

namespace {

constexpr const char* kId = "0123456789abcdef0123";

// Stands for what watches a container: its words have the id, and its child is the container.
struct FakeContainer {
  TempDir dir;
  Child child;
  FakeContainer() {
    const std::string hold = "x=$(head -c 30000000 /dev/zero | tr \"\\0\" x); echo $0 $$ > ";
    const std::string script =
        "sh -c '" + hold + (dir.path() / "process").string() + "; while :; do :; done' $0 & wait";
    SpawnOptions options;
    options.command = {"/bin/sh", "-c", script, kId};
    options.new_session = true;
    child = spawn(options).value();
  }
  ~FakeContainer() { end(); }
  void end() {
    if (child.pid <= 0) return;
    ::kill(-child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    child.pid = 0;
  }
};

}  // namespace

TEST_CASE("what containers use is added to what init has seen, and the last of it stays") {
  FakeContainer container;
  ContainerUsage usage({container.dir.path() / "process", container.dir.path() / "never"});
  const runtime::Usage seen{.cpu_seconds = 1, .memory_bytes = 1000, .memory_peak_bytes = 2000};
  const runtime::Usage none = usage.added_to(seen);
  CHECK(none.cpu_seconds == 1);
  CHECK(none.memory_peak_bytes == 2000);
  REQUIRE(eventually([&] {
    usage.sample();
    return usage.added_to(seen).cpu_seconds > 1.05;
  }));
  const runtime::Usage now = usage.added_to(seen);
  CHECK(now.memory_bytes > 30'000'000);
  CHECK(now.memory_peak_bytes >= now.memory_bytes);
  container.end();
  REQUIRE(eventually([&] {
    usage.sample();
    return usage.added_to(seen).memory_bytes == 1000;
  }));
  const runtime::Usage after = usage.added_to(seen);
  CHECK(after.cpu_seconds >= now.cpu_seconds);
  CHECK(after.memory_peak_bytes >= now.memory_peak_bytes);
}

TEST_CASE("a process that is not the container's is left alone") {
  const TempDir dir;
  const fs::path file = dir.path() / "process";
  REQUIRE(write_file(file, std::string(kId) + " 1\n"));
  ContainerUsage usage({file});
  usage.sample();
  CHECK(usage.added_to({}).memory_bytes == 0);
}
