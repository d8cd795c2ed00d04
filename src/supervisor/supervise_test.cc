#include "supervisor/supervise.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "supervisor/test_yard.h"

using namespace trainyard;
using namespace trainyard::supervisor;
using http::eventually;

// Not a test, so it is never run as one: the entry of the supervisor process that Yard starts from
// this binary, with --no-skip, to be killed like a real one.
TEST_CASE("carry an attempt" * doctest::skip()) {
  const char* folder = std::getenv("TEST_FOLDER");
  const bool collects = std::getenv("TEST_PURPOSE") != nullptr;
  if (folder == nullptr) return;
  _exit(supervise(folder, TokenFrom::assignment, collects ? Purpose::collect : Purpose::carry));
}

TEST_CASE("a script runs in its own copy of the code and everything of it arrives") {
  Yard yard;
  yard.code("train.sh",
            "#!/bin/sh\necho training; echo warning >&2; echo model > outputs/model;"
            "echo line > logs/log.txt; pwd");
  yard.assignment.blobs = yard.server.blobs;
  yard.assignment.spec.command = {"./train.sh"};
  CHECK(yard.carry() == kExitDone);
  const FakeServer::Seen seen = yard.server.seen();
  std::vector<ReportKind> kinds;
  for (const Report& report : seen.reports) kinds.push_back(report.kind);
  CHECK(kinds == std::vector{ReportKind::preparing, ReportKind::starting, ReportKind::running,
                             ReportKind::finalizing, ReportKind::ended});
  CHECK(seen.reports[2].node == host_name());
  const AttemptEnd end = yard.server.end();
  CHECK(end.cause == EndCause::exited);
  CHECK(end.exit_code == 0);
  CHECK(end.error.empty());
  CHECK(end.ranks_started);
  CHECK(end.memory_peak_bytes > 0);
  const std::string console = yard.server.console();
  CHECK(console.find("training\n") != std::string::npos);
  CHECK(console.find("warning\n") != std::string::npos);
  CHECK(console.find((yard.folder / "work").string()) != std::string::npos);
  CHECK(seen.files.at("logs/log.txt").bytes == "line\n");
  const auto tree = snapshot::decode(
      read_file(yard.server.blobs / end.outputs.substr(0, 2) / end.outputs.substr(2)).value());
  REQUIRE(tree);
  REQUIRE(tree->entries.size() == 1);
  CHECK(tree->entries[0].path == "model");
  CHECK_FALSE(fs::exists(yard.folder / "work"));
}

TEST_CASE("code comes over the API when no folder has it") {
  Yard yard;
  yard.code("train.sh", "#!/bin/sh\necho hello");
  yard.assignment.spec.command = {"./train.sh"};
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.console() == "hello\n");
}

TEST_CASE("a short run that says nothing costs two requests") {
  Yard yard;
  yard.shell("true");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.seen().requests <= 3);
  CHECK(yard.server.seen().reports.size() == 5);
}

TEST_CASE("a program that is not there ends the attempt with 127 before user code ran") {
  Yard yard;
  yard.assignment.spec.command = {"pyhton", "train.py"};
  CHECK(yard.carry() == kExitDone);
  const AttemptEnd end = yard.server.end();
  CHECK(end.cause == EndCause::prepare_failed);
  CHECK(end.exit_code == 127);
  CHECK(end.error == "program 'pyhton' was not found in PATH");
  CHECK_FALSE(end.ranks_started);
}

TEST_CASE("code that is nowhere ends the attempt before it began") {
  Yard yard;
  yard.shell("true");
  yard.assignment.spec.snapshot = std::string(64, 'a');
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::prepare_failed);
  CHECK(yard.server.end().error.find("code") != std::string::npos);
}

TEST_CASE("several ranks have their numbers, and the first to fail ends the others") {
  Yard yard;
  yard.assignment.spec.processes_per_node = 3;
  yard.shell("echo rank $RANK of $WORLD_SIZE; if [ $RANK = 2 ]; then exit 3; fi; exec sleep 1000");
  CHECK(yard.carry() == kExitDone);
  const AttemptEnd end = yard.server.end();
  CHECK(end.exit_code == 3);
  CHECK(end.rank == 2);
  CHECK(end.error ==
        "rank 2 exited with code 3 on node " + host_name() + "; its last lines:\nrank 2 of 3");
  CHECK_FALSE(yard.server.saw(ReportKind::rank_failed));
  REQUIRE(end.ranks.size() == 3);
  CHECK(end.ranks[0].signal == SIGTERM);
  CHECK(yard.server.console(0) == "rank 0 of 3\n");
  CHECK(yard.server.console(2) == "rank 2 of 3\n");
}

TEST_CASE("a signal is 128 and its number") {
  Yard yard;
  yard.shell("kill -SEGV $$");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().exit_code == 139);
  CHECK(yard.server.end().signal == 11);
}

TEST_CASE("a canceled script saves while its children live") {
  for (const char* isolation : {"", "sweep"}) {
    Yard yard;
    yard.isolation = isolation;
    yard.shell(
        "sleep 1000 & child=$!; trap 'kill -0 $child && echo saved > outputs/state; exit 0' "
        "TERM; echo up; while :; do sleep 0.05; done");
    yard.server.start();
    yard.launch();
    REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
    yard.server.order_cancel();
    CHECK(yard.wait() == kExitDone);
    const AttemptEnd end = yard.server.end();
    CHECK(end.cause == EndCause::canceled);
    CHECK(end.exit_code == 1);
    CHECK_FALSE(end.outputs.empty());
  }
}

TEST_CASE("a script that does not stop is killed at the end of its grace") {
  Yard yard;
  yard.assignment.spec.grace_s = 1;
  yard.shell("trap '' TERM; echo up; while :; do sleep 0.05; done");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  kill(yard.child.pid, SIGTERM);
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::canceled);
  REQUIRE(yard.server.end().ranks.size() == 1);
  CHECK(yard.server.end().ranks[0].signal == SIGKILL);
}

TEST_CASE("a time limit ends the run") {
  Yard yard;
  yard.assignment.spec.time_limit_s = 1;
  yard.shell("exec sleep 1000");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::time_limit);
  CHECK(yard.server.end().error.find("time limit") != std::string::npos);
}

TEST_CASE("a hundred megabytes arrive byte for byte, both outputs by turns") {
  Yard yard;
  yard.assignment.spec.command = {"python3", "-c",
                                  "import os\n"
                                  "block = bytes(i * 7 % 256 for i in range(65536))\n"
                                  "for i in range(1600): os.write(1 + i % 2, block)\n"};
  CHECK(yard.carry() == kExitDone);
  const FakeServer::Seen seen = yard.server.seen();
  const std::string& console = seen.console.at(0);
  REQUIRE(console.size() == 1600 * 65536);
  // Pipes keep no order between them; within each output every byte is in its place.
  const std::string& streams = seen.streams.at(0);
  std::string outputs[2];
  for (size_t begin = 0; begin < console.size();) {
    const size_t end =
        std::min(streams.find(streams[begin] == 'o' ? 'e' : 'o', begin), console.size());
    outputs[streams[begin] == 'e'].append(console, begin, end - begin);
    begin = end;
  }
  std::string block(65536, '\0');
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 7 % 256);
  for (const std::string& output : outputs) {
    REQUIRE(output.size() == 800 * block.size());
    for (size_t i = 0; i < 800; ++i) REQUIRE(output.compare(i * 65536, 65536, block) == 0);
  }
}

TEST_CASE("a script that closes its outputs and goes on writing is left alone") {
  Yard yard;
  yard.shell("echo before; exec 1>&- 2>&-; echo after; sleep 0.1; touch outputs/lived; exit 4");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().exit_code == 4);
  CHECK(yard.server.console() == "before\n");
  CHECK_FALSE(yard.server.end().outputs.empty());
}

TEST_CASE("a server that comes back has everything, in order and once") {
  Yard yard;
  yard.shell("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.1; done; echo x > outputs/x");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console().find("line 2") != std::string::npos; }));
  yard.server.stop();
  // Long enough for the script to end without it.
  pollfd ended{yard.child.pidfd.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 1500) == 0);
  yard.server.start();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.console() ==
        "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n");
  CHECK(yard.server.end().exit_code == 0);
  CHECK_FALSE(yard.server.end().outputs.empty());
  // It ended long before its end was told.
  const std::vector<Report> reports = yard.server.seen().reports;
  const auto finalizing = std::find_if(reports.begin(), reports.end(), [](const Report& report) {
    return report.kind == ReportKind::finalizing;
  });
  REQUIRE(finalizing != reports.end());
  CHECK(finalizing->age_us > 300'000);
}

TEST_CASE("a supervisor that is cut off for longer than its limit stops its ranks, and says so") {
  Yard yard;
  yard.assignment.outage_s = 6;  // A heartbeat comes every 5 s.
  yard.shell("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  // For as long as the server answers there is no limit.
  pollfd ended{yard.child.pidfd.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 7000) == 0);
  CHECK(yard.server.console() == "up\n");
  yard.server.stop();
  const fs::path spool = yard.folder / "spool" / "console-0.log";
  REQUIRE(eventually([&] { return read_file(spool)->find("saved") != std::string::npos; }));
  yard.server.start();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.console() == "up\nsaved\n");
  CHECK(yard.server.end().cause == EndCause::evicted);
  CHECK(yard.server.end().error.find("the server was not reached for 6.0 s") != std::string::npos);
}

TEST_CASE("what a finished attempt cannot send stays in its folder, and is sent from a copy") {
  Yard yard;
  yard.assignment.unsent_s = 1;
  yard.shell("echo up; sleep 0.3; echo last; echo x > outputs/x; exit 5");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  yard.server.stop();
  CHECK(yard.wait() == kExitUnsent);

  // Elsewhere, where a process of the number in the journal has nothing to do with it.
  const fs::path copy = yard.dir.path() / "copy";
  fs::copy(yard.folder, copy, fs::copy_options::recursive);
  yard.folder = copy;
  yard.purpose = "collect";
  yard.server.start();
  yard.start_supervisor();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.console() == "up\nlast\n");
  CHECK(yard.server.end().exit_code == 5);
  CHECK_FALSE(yard.server.end().outputs.empty());
}

TEST_CASE("a newer attempt ends an orphan at once") {
  Yard yard;
  yard.shell("trap '' TERM; echo up; while :; do sleep 0.05; done");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  yard.server.refuse_reports = 409;
  CHECK(yard.wait() == kExitDone);
  CHECK_FALSE(yard.server.saw(ReportKind::ended));
  CHECK_FALSE(fs::exists(yard.folder / "work"));
}

TEST_CASE("a full disk at the server ends the run and says so") {
  Yard yard;
  yard.shell("echo hello; echo x > outputs/x; sleep 0.3");
  yard.server.refuse_blobs = 507;
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::no_space);
  CHECK(yard.server.end().error.find("no space left on device") == 0);
}

TEST_CASE("a server that has no space for the console stops the run and hears of its end") {
  Yard yard;
  yard.shell("echo hello; exec sleep 1000");
  yard.server.refuse_console = 507;
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::no_space);
  CHECK(yard.server.end().error.find("logs are not whole") != std::string::npos);
}

TEST_CASE("a supervisor whose folder was removed while the server is away does not stay") {
  Yard yard;
  Alive alive(yard.dir.path());
  yard.shell(alive.daemons() + "exec sleep 1000");
  yard.launch();  // No server.
  alive.wait_for_both();
  REQUIRE(remove_tree(yard.folder));
  yard.wait();
  CHECK(alive.gone_within(0));
}
