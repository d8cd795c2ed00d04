#include "supervisor/supervise.h"
#include "supervisor/test_yard.h"

using namespace trainyard;
using namespace trainyard::supervisor;
using http::eventually;

namespace {

constexpr const char* kPreparationLog = "system_logs/preparation.txt";

bool has_file(FakeServer& server, const std::string& name, const std::string& text) {
  const FakeServer::Seen seen = server.seen();
  const auto found = seen.files.find(name);
  return found != seen.files.end() && found->second.bytes.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a preparation runs before the ranks, in their folder and with their variables") {
  for (const char* isolation : {"", "sweep"}) {
    Yard yard;
    yard.isolation = isolation;
    yard.assignment.spec.environment_variables = {{"WHO", "me"}};
    yard.assignment.spec.preparation =
        "echo made for $WHO in $TRAINYARD_RUN_ID > made; echo out; echo err >&2; pwd; "
        "echo told >> $TRAINYARD_RECORDS; echo rank is ${RANK-none}";
    yard.assignment.spec.processes_per_node = 2;
    yard.shell("cat made");
    CHECK(yard.carry() == kExitDone);
    CHECK(yard.server.end().error.empty());
    for (const int rank : {0, 1}) {
      CHECK(yard.server.console(rank) == "made for me in brisk-otter-test\n");
    }
    const FakeServer::Seen seen = yard.server.seen();
    const std::string log = seen.files.at(kPreparationLog).bytes;
    for (const std::string& line :
         {std::string("out\n"), std::string("err\n"), (yard.folder / "work").string() + "\n",
          std::string("rank is none\n")}) {
      CHECK_MESSAGE(log.find(line) != std::string::npos, line);
    }
    CHECK(seen.records.at(0) == "told\n");
    CHECK_FALSE(fs::exists(yard.folder / "preparation"));
  }
}

TEST_CASE("a preparation that fails is told with its last line, and no rank starts") {
  Yard yard;
  yard.assignment.spec.preparation = "echo first; echo no such package; exit 3";
  yard.shell("echo started");
  CHECK(yard.carry() == kExitDone);
  const AttemptEnd end = yard.server.end();
  CHECK(end.cause == EndCause::exited);
  CHECK(end.exit_code == 3);
  CHECK(end.error == "job preparation ended with 3: no such package");
  CHECK_FALSE(end.ranks_started);
  CHECK(end.rank == -1);
  CHECK_FALSE(yard.server.saw(ReportKind::starting));
  CHECK(yard.server.console().empty());
  CHECK(yard.server.seen().files.at(kPreparationLog).bytes == "first\nno such package\n");
}

TEST_CASE("a preparation that says nothing or is killed is told all the same") {
  const std::pair<const char*, const char*> cases[] = {
      {"exit 7", "job preparation ended with 7"},
      {"echo ERROR: no such package; echo; echo '[notice] be newer'; exit 1",
       "job preparation ended with 1: ERROR: no such package"},
      {"kill -KILL $$", "job preparation was killed by signal 9 (SIGKILL)"},
      {"nosuchprogram", "job preparation ended with 127: "},
  };
  for (const auto& [preparation, error] : cases) {
    CAPTURE(preparation);
    Yard yard;
    yard.assignment.spec.preparation = preparation;
    yard.shell("echo started");
    CHECK(yard.carry() == kExitDone);
    CHECK(yard.server.end().error.starts_with(error));
    CHECK_FALSE(yard.server.saw(ReportKind::starting));
  }
}

TEST_CASE("what a preparation prints hides the run's secrets, in its error too") {
  Yard yard;
  yard.server.secrets = {{"TOKEN", "s3cr3t-value-of-it"}};
  yard.assignment.spec.secrets = {"TOKEN"};
  yard.assignment.spec.preparation = "echo token is $TOKEN; exit 1";
  yard.shell("true");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().error.starts_with("job preparation ended with 1: token is "));
  CHECK(yard.server.end().error.find("s3cr3t") == std::string::npos);
  CHECK(yard.server.seen().files.at(kPreparationLog).bytes.find("s3cr3t") == std::string::npos);
}

TEST_CASE("a cancel ends a preparation with a word first, and no rank starts") {
  Yard yard;
  yard.assignment.spec.preparation =
      "trap 'echo cleaned up; exit 0' TERM; echo up; while :; do sleep 0.05; done";
  yard.shell("echo started");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return has_file(yard.server, kPreparationLog, "up\n"); }));
  yard.server.order_cancel();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::canceled);
  CHECK_FALSE(yard.server.end().ranks_started);
  CHECK_FALSE(yard.server.saw(ReportKind::starting));
  CHECK(yard.server.seen().files.at(kPreparationLog).bytes == "up\ncleaned up\n");
}

TEST_CASE("the time limit counts the preparation, and ends it after the grace") {
  Yard yard;
  yard.assignment.spec.time_limit_s = 1;
  yard.assignment.spec.grace_s = 1;
  yard.assignment.spec.preparation = "trap '' TERM; while :; do sleep 0.05; done";
  yard.shell("echo started");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::time_limit);
  CHECK(yard.server.end().error == "stopped at its time limit of 1.0 s, in its job preparation");
  CHECK(yard.server.console().empty());
}

TEST_CASE("ranks have the time that their preparation left") {
  Yard yard;
  yard.assignment.spec.time_limit_s = 3;
  yard.assignment.spec.preparation = "sleep 2";
  yard.shell("sleep 2; echo too late");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::time_limit);
  CHECK(yard.server.console().empty());
}

TEST_CASE("nothing that a preparation starts outlives it") {
  for (const char* isolation : {"", "sweep"}) {
    Yard yard;
    Alive alive(yard.dir.path());
    yard.isolation = isolation;
    yard.assignment.spec.preparation = alive.daemons() + "until [ -e go ]; do sleep 0.02; done";
    yard.shell("echo started");
    yard.server.start();
    yard.launch();
    alive.wait_for_both();
    REQUIRE(write_file(yard.folder / "work" / "go", ""));
    CHECK(alive.gone_within(20'000));
    CHECK(yard.wait() == kExitDone);
    CHECK(yard.server.console() == "started\n");
  }
}

TEST_CASE("of a supervisor that is killed in a preparation nothing is left, and nothing begins") {
  for (const char* isolation : {"", "sweep"}) {
    Yard yard;
    Alive alive(yard.dir.path());
    yard.isolation = isolation;
    yard.assignment.spec.preparation = "echo x >> ../../count; " + alive.daemons() + "sleep 1000";
    yard.shell("echo started");
    yard.server.start();
    yard.launch();
    alive.wait_for_both();
    yard.kill_supervisor();
    yard.start_supervisor();
    CHECK(yard.wait() == kExitDone);
    CHECK(alive.gone_within(20'000));
    const AttemptEnd end = yard.server.end();
    CHECK(end.cause == EndCause::lost);
    CHECK_FALSE(end.ranks_started);
    CHECK(read_file(yard.dir.path() / "count").value() == "x\n");
    CHECK(yard.server.console().empty());
  }
}

TEST_CASE("a preparation runs once on each node, and the nodes meet behind it") {
  Nodes nodes(2, 2, "cat made");
  for (auto& post : nodes.posts) {
    post->assignment.spec.preparation = "echo node $NODE_RANK >> made; echo on $NODE_RANK";
  }
  nodes.carry();
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(nodes.server.console(rank) == "node " + std::to_string(rank / 2) + "\n");
  }
  const FakeServer::Seen seen = nodes.server.seen();
  CHECK(seen.files.at(kPreparationLog).bytes == "on 0\n");
  CHECK(seen.files.at("system_logs/preparation-node-1.txt").bytes == "on 1\n");
}

TEST_CASE("a preparation that fails on one node stops the others, and no rank starts anywhere") {
  Nodes nodes(3, 1, "echo started");
  for (auto& post : nodes.posts) {
    // One is ready long before, one still prepares, one fails.
    post->assignment.spec.preparation =
        "case $NODE_RANK in 0) exit 0;; 1) trap 'exit 0' TERM; while :; do sleep 0.05; done;; esac;"
        "while [ ! -e ../../../fail ]; do sleep 0.02; done; echo broken; exit 5";
  }
  nodes.server.start();
  nodes.launch_all();
  REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::ready, 0); }));
  REQUIRE(write_file(nodes.dir.path() / "fail", ""));
  nodes.wait_all();
  const AttemptEnd failed = nodes.server.end(2);
  CHECK(failed.exit_code == 5);
  CHECK(failed.error == "job preparation ended with 5 on node n2: broken");
  for (const int node : {0, 1}) {
    CHECK(nodes.server.end(node).cause == EndCause::peer_failed);
    CHECK(nodes.server.end(node).error.find("on node n2: broken") != std::string::npos);
  }
  for (const int node : {0, 1, 2}) {
    CHECK_FALSE(nodes.server.saw(ReportKind::starting, node));
    // A node that never began says nothing that could pass for having let the others go.
    CHECK_FALSE(nodes.server.saw(ReportKind::finalizing, node));
    CHECK(nodes.server.console(node).empty());
  }
}
