// What kill -9 and full disks leave of an attempt, and who ends it.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "supervisor/supervise.h"
#include "supervisor/test_yard.h"

using namespace trainyard;
using namespace trainyard::supervisor;
using http::eventually;

TEST_CASE("kill -9 of a supervisor: its daemons are gone, and another tells what became of it") {
  for (const char* isolation : {"", "sweep"}) {
    Yard yard;
    Alive alive(yard.dir.path());
    yard.isolation = isolation;
    yard.shell(alive.daemons() + "echo half done; echo x > outputs/x; exec sleep 1000");
    yard.server.start();
    yard.launch();
    alive.wait_for_both();
    REQUIRE(eventually([&] { return yard.server.console() == "half done\n"; }));
    const pid_t first = yard.child.pid;
    yard.kill_supervisor();
    CHECK(alive.gone_within(1000));
    yard.start_supervisor();
    CHECK(yard.wait() == kExitDone);
    const AttemptEnd end = yard.server.end();
    CHECK(end.cause == EndCause::lost);
    CHECK(end.error == "its supervisor (pid " + std::to_string(first) + ") was killed");
    CHECK(end.ranks_started);
    CHECK_FALSE(end.outputs.empty());
    CHECK(yard.server.console() == "half done\n");
    CHECK_FALSE(fs::exists(yard.folder / "work"));
  }
}

TEST_CASE(
    "what was printed and told while the server was away comes from a killed supervisor too") {
  Yard yard;
  yard.shell("echo one; echo two >&2; exit 5");
  yard.launch();  // No server at all.
  const fs::path journal = yard.folder / "journal";
  REQUIRE(eventually([&] {
    const Result<std::string> text = read_file(journal);
    return text && text->find("finalizing") != std::string::npos;
  }));
  yard.kill_supervisor();
  yard.server.start();
  yard.start_supervisor();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.console().size() == 8);
  CHECK(yard.server.end().cause == EndCause::exited);
  CHECK(yard.server.end().exit_code == 5);
  CHECK(yard.server.saw(ReportKind::running));
}

TEST_CASE("a supervisor that is killed again and again still ends its attempt, once") {
  Yard yard;
  yard.shell("echo out; echo x > outputs/x");
  yard.launch();
  // No server yet: each waits for it, and is killed at another moment.
  for (int i = 0; i < 8; ++i) {
    pollfd ended{yard.child.pidfd.get(), POLLIN, 0};
    CHECK(poll(&ended, 1, 40 * i) == 0);
    yard.kill_supervisor();
    yard.start_supervisor();
  }
  yard.server.start();
  CHECK(yard.wait() == kExitDone);
  const FakeServer::Seen seen = yard.server.seen();
  int64_t last = 0;
  int ends = 0;
  for (const Report& report : seen.reports) {
    CHECK(report.seq > last);
    last = report.seq;
    ends += report.kind == ReportKind::ended ? 1 : 0;
  }
  CHECK(ends == 1);
  const AttemptEnd end = yard.server.end();
  if (end.cause == EndCause::exited) CHECK(yard.server.console() == "out\n");
}

TEST_CASE("a server that was started again gets what it has lost, before the end") {
  Yard yard;
  const fs::path sign = yard.dir.path() / "sign";
  yard.shell(
      "echo one; echo log > logs/own.txt; printf '%s\\n' '{\"k\":\"a\"}' '{\"k\":\"b\"}' > "
      "$TRAINYARD_RECORDS; while [ ! -e " +
      sign.string() + " ]; do sleep 0.02; done; echo x > outputs/x");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] {
    const FakeServer::Seen seen = yard.server.seen();
    return seen.console.contains(0) && seen.console.at(0) == "one\n" && seen.records.contains(0) &&
           seen.records.at(0).size() == 20 && seen.files.contains("logs/own.txt") &&
           seen.files.at("logs/own.txt").bytes == "log\n";
  }));
  SUBCASE("in the middle") { yard.server.lose(1, 2, 10); }
  SUBCASE("all of it") { yard.server.lose(0, 0, 0); }
  REQUIRE(write_file(sign, ""));
  CHECK(yard.wait() == kExitDone);
  const FakeServer::Seen seen = yard.server.seen();
  CHECK(seen.console.at(0) == "one\n");
  CHECK(seen.records.at(0) == "{\"k\":\"a\"}\n{\"k\":\"b\"}\n");
  CHECK(seen.files.at("logs/own.txt").bytes == "log\n");
  std::vector<ReportKind> kinds;
  for (const Report& report : seen.reports) kinds.push_back(report.kind);
  using enum ReportKind;
  CHECK(kinds == std::vector{preparing, starting, running, finalizing, ended});
  CHECK(yard.server.end().cause == EndCause::exited);
}

TEST_CASE("orders are obeyed though the server takes no report") {
  Yard yard;
  yard.shell("trap 'echo stopped; exit 0' TERM; echo up; while true; do sleep 0.02; done");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  yard.server.ignore_reports = true;
  yard.server.lose(0, 3, 0);
  yard.server.cancel = true;  // Nobody is woken: the answer to a heartbeat says it.
  CHECK(eventually([&] { return yard.server.console() == "up\nstopped\n"; }));
  yard.server.ignore_reports = false;
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::canceled);
}

TEST_CASE("a second supervisor in a folder leaves the first alone") {
  Yard yard;
  yard.shell("echo up; exec sleep 1000");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  Child first = std::exchange(yard.child, Child{});
  yard.start_supervisor();
  CHECK(yard.wait() == kExitBusy);
  yard.child = std::move(first);
  yard.server.order_cancel();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::canceled);
}

TEST_CASE("a limit on the size of files stops the run, and its end is still told") {
  Yard yard;
  yard.shell("yes | head -c 3000000; sleep 1000");
  yard.server.start();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  yard.launch();
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::no_space);
  CHECK(yard.server.console().size() == 1 << 20);
}

TEST_CASE("a full disk stops the run, and its end is still told") {
  struct SmallDisk {
    fs::path path;
    bool mounted = false;
    explicit SmallDisk(const fs::path& where) : path(where) {
      REQUIRE(make_dirs(path));
      mounted = mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") == 0;
    }
    ~SmallDisk() {
      if (mounted) umount2(path.c_str(), MNT_DETACH);
    }
  };
  Yard yard;
  SmallDisk disk(yard.dir.path() / "small");
  if (!disk.mounted) return;  // Only root may.
  yard.folder = disk.path / "brisk-otter-test.1";
  SUBCASE("filled by the console while the server is away") {
    yard.shell("yes | head -c 3000000; sleep 1000");
    yard.launch();
    REQUIRE(eventually([&] {
      const Result<std::string> text = read_file(yard.folder / "journal");
      return text && text->find("\"dead\"") != std::string::npos;
    }));
    yard.server.start();
  }
  SUBCASE("filled by the code") {
    yard.code("large", std::string(3 << 20, 'x'));
    yard.assignment.blobs = yard.server.blobs;
    yard.shell("true");
    yard.server.start();
    yard.launch();
  }
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::no_space);
  CHECK(yard.server.end().error.find("no space left on device: ") == 0);
}
