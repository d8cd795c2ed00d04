#include <algorithm>
#include <set>

#include "supervisor/supervise.h"
#include "supervisor/test_yard.h"

using namespace trainyard;
using namespace trainyard::supervisor;
using http::eventually;

namespace {

std::vector<ReportKind> kinds_of(const std::vector<Report>& reports) {
  std::vector<ReportKind> kinds;
  for (const Report& report : reports) {
    if (report.kind != ReportKind::sample) kinds.push_back(report.kind);
  }
  return kinds;
}

// What a rank printed as NAME=VALUE lines.
std::string value_of(const std::string& console, const std::string& name) {
  const size_t at = ("\n" + console).find("\n" + name + "=");
  if (at == std::string::npos) return "(none)";
  const size_t begin = at + name.size() + 1;
  return console.substr(begin, console.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("ranks of several nodes count through and all find the same master") {
  Nodes nodes(3, 2, "env; cat $AZ_BATCHAI_MPI_HOST_FILE; echo told >> $TRAINYARD_RECORDS");
  nodes.carry();
  FakeServer::Seen seen = nodes.server.seen();
  const int master_port = seen.of_node[0][1].host.port;
  for (int rank = 0; rank < 6; ++rank) {
    const std::string& console = seen.console[rank];
    CHECK(value_of(console, "RANK") == std::to_string(rank));
    CHECK(value_of(console, "WORLD_SIZE") == "6");
    CHECK(value_of(console, "LOCAL_RANK") == std::to_string(rank % 2));
    CHECK(value_of(console, "NODE_RANK") == std::to_string(rank / 2));
    CHECK(value_of(console, "MASTER_ADDR") == "127.0.0.1");
    CHECK(value_of(console, "MASTER_PORT") == std::to_string(master_port));
    CHECK(console.ends_with("127.0.0.1 slots=2\n127.0.0.1 slots=2\n127.0.0.1 slots=2\n"));
    CHECK(seen.records[rank] == "told\n");
  }
  CHECK(seen.console.size() == 6);
  std::set<int> ports;
  for (int node = 0; node < 3; ++node) {
    const std::vector<Report>& reports = seen.of_node[node];
    CHECK(kinds_of(reports) == std::vector{ReportKind::preparing, ReportKind::ready,
                                           ReportKind::starting, ReportKind::running,
                                           ReportKind::finalizing, ReportKind::ended});
    const Host& host = reports[1].host;
    CHECK(host.name == "n" + std::to_string(node));
    CHECK(host.address == "127.0.0.1");
    for (int port = 0; port < 3; ++port) CHECK(ports.insert(host.port + port).second);
    const AttemptEnd end = nodes.server.end(node);
    CHECK(end.cause == EndCause::exited);
    CHECK(end.error.empty());
    REQUIRE(end.ranks.size() == 2);
    CHECK(end.ranks[0].rank == node * 2);
  }
}

TEST_CASE("no rank starts before the last node is ready") {
  Nodes nodes(2, 1, "echo started");
  nodes.server.start();
  nodes[0].launch();
  REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::ready, 0); }));
  pollfd ended{nodes[0].child.pidfd.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 300) == 0);
  CHECK_FALSE(nodes.server.saw(ReportKind::starting, 0));
  nodes[1].launch();
  nodes.wait_all();
  CHECK(nodes.server.console(0) == "started\n");
  CHECK(nodes.server.console(1) == "started\n");
}

TEST_CASE("a rank that fails is told at once, named with its node and its last lines") {
  Nodes nodes(2, 2,
              "for i in $(seq 1 20); do echo line $i; done; [ $RANK != 3 ] || exit 42; "
              "exec sleep 1000");
  nodes.carry();
  FakeServer::Seen seen = nodes.server.seen();
  const AttemptEnd failed = nodes.server.end(1);
  CHECK(failed.cause == EndCause::exited);
  CHECK(failed.exit_code == 42);
  CHECK(failed.rank == 3);
  CHECK(failed.error ==
        "rank 3 exited with code 42 on node n1; its last lines:\nline 11\nline 12\nline 13\n"
        "line 14\nline 15\nline 16\nline 17\nline 18\nline 19\nline 20");
  const auto& reports = seen.of_node[1];
  const auto told = std::find_if(reports.begin(), reports.end(), [](const Report& report) {
    return report.kind == ReportKind::rank_failed;
  });
  REQUIRE(told != reports.end());
  CHECK(told->exit == RankExit{3, 42, 0});
  const AttemptEnd stopped = nodes.server.end(0);
  CHECK(stopped.cause == EndCause::peer_failed);
  CHECK(stopped.error == "rank 3 failed");
  CHECK(stopped.rank == -1);
  REQUIRE(stopped.ranks.size() == 2);
  CHECK(stopped.ranks[0] == RankExit{0, 143, SIGTERM});
  CHECK_FALSE(nodes.server.saw(ReportKind::rank_failed, 0));
}

TEST_CASE("what is told of a failed rank hides its secrets") {
  Nodes nodes(2, 1, "echo token is $TOKEN; [ $RANK = 0 ] || exit 1; exec sleep 1000");
  nodes.server.secrets = {{"TOKEN", "s3cr3t-value-of-it"}};
  for (auto& post : nodes.posts) post->assignment.spec.secrets = {"TOKEN"};
  nodes.carry();
  const AttemptEnd end = nodes.server.end(1);
  CHECK(end.error.find("token is ") != std::string::npos);
  CHECK(end.error.find("s3cr3t") == std::string::npos);
}

TEST_CASE("nodes that were told to stop save within their grace, and are killed after it") {
  Nodes nodes(2, 1,
              "if [ $RANK = 1 ]; then while [ ! -e ../../../up ]; do sleep 0.02; done; exit 9; fi;"
              "trap 'echo saved > outputs/state' TERM; touch ../../../up;"
              "while :; do sleep 0.05; done");
  nodes[0].assignment.spec.grace_s = 1;
  nodes.carry();
  const AttemptEnd end = nodes.server.end(0);
  CHECK(end.cause == EndCause::peer_failed);
  REQUIRE(end.ranks.size() == 1);
  CHECK(end.ranks[0].signal == SIGKILL);
  CHECK_FALSE(end.outputs.empty());
}

TEST_CASE("a cancel is heard at once by nodes that wait for others") {
  Nodes nodes(3, 1, "echo started");
  nodes.server.start();
  for (const int node : {0, 2}) nodes[node].launch();
  for (const int node : {0, 2}) {
    REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::ready, node); }));
  }
  nodes.server.order_cancel();
  for (const int node : {0, 2}) {
    CHECK(nodes[node].wait() == kExitDone);
    CHECK(nodes.server.end(node).cause == EndCause::canceled);
    CHECK_FALSE(nodes.server.end(node).ranks_started);
  }
}

TEST_CASE("a node that is taken away while it waits says so") {
  Nodes nodes(2, 1, "echo started");
  nodes[0].assignment.spec.target = "cluster";
  nodes.server.start();
  nodes[0].launch();
  REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::ready, 0); }));
  kill(nodes[0].child.pid, SIGTERM);
  CHECK(nodes[0].wait() == kExitDone);
  CHECK(nodes.server.end(0).cause == EndCause::evicted);
  CHECK_FALSE(nodes.server.end(0).ranks_started);
}

TEST_CASE("a newer attempt ends an orphan that waits for others") {
  Nodes nodes(2, 1, "echo started");
  nodes.server.start();
  nodes[0].launch();
  REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::ready, 0); }));
  nodes.server.refuse_reports = 409;
  CHECK(nodes[0].wait() == kExitDone);
  CHECK_FALSE(nodes.server.saw(ReportKind::ended, 0));
  CHECK(nodes.server.console(0).empty());
}

TEST_CASE("a supervisor killed while it waits is followed by one that says it is lost") {
  Nodes nodes(2, 2, "echo started");
  nodes.server.start();
  nodes[1].launch();
  REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::ready, 1); }));
  nodes[1].kill_supervisor();
  nodes[1].start_supervisor();
  CHECK(nodes[1].wait() == kExitDone);
  const AttemptEnd end = nodes.server.end(1);
  CHECK(end.cause == EndCause::lost);
  CHECK_FALSE(end.ranks_started);
  CHECK(nodes.server.seen().of_node[0].empty());
}

TEST_CASE("a supervisor killed while its ranks run is followed by one that knows their numbers") {
  Nodes nodes(2, 2, "echo up $RANK; exec sleep 1000");
  nodes.server.start();
  nodes.launch_all();
  REQUIRE(eventually(
      [&] { return nodes.server.console(2) == "up 2\n" && nodes.server.console(3) == "up 3\n"; }));
  nodes[1].kill_supervisor();
  nodes[1].start_supervisor();
  CHECK(nodes[1].wait() == kExitDone);
  CHECK(nodes.server.end(1).cause == EndCause::lost);
  CHECK(nodes.server.end(1).ranks_started);
  CHECK(nodes.server.console(2) == "up 2\n");
  nodes.server.order_cancel();
  CHECK(nodes[0].wait() == kExitDone);
}

TEST_CASE("logs of later nodes lie apart, and come back to them") {
  Nodes nodes(2, 1, "cat logs/log.txt outputs/*; echo of $RANK > logs/log.txt; sleep 1");
  for (auto& post : nodes.posts) post->assignment.attempt = 2;
  nodes.server.logs = {{"logs/log.txt", "first\n"}, {"logs/.node-1/log.txt", "second\n"}};
  snapshot::Tree tree;
  for (const char* path : {".node-1/state", "model", "state"}) {
    const std::string bytes = std::string(path) + "\n";
    REQUIRE(nodes.server.store->put(sha256(bytes), bytes));
    tree.entries.push_back({.path = path, .size = bytes.size(), .digest = sha256(bytes)});
  }
  const std::string text = snapshot::encode(tree);
  REQUIRE(nodes.server.store->put(sha256(text), text));
  REQUIRE(nodes.server.store->sync());
  for (auto& post : nodes.posts) post->assignment.outputs = sha256(text).hex();
  nodes.carry();
  CHECK(nodes.server.console(0) == "first\nmodel\nstate\n");
  CHECK(nodes.server.console(1) == "second\nmodel\n.node-1/state\n");
  const auto files = nodes.server.seen().files;
  CHECK(files.at("logs/log.txt").bytes == "of 0\n");
  CHECK(files.at("logs/.node-1/log.txt").bytes == "of 1\n");
  CHECK(files.contains("system_logs/supervisor-2.txt"));
  CHECK(files.contains("system_logs/supervisor-2-node-1.txt"));
  CHECK(files.size() == 4);
}

TEST_CASE("workers and parameter servers are told apart") {
  Nodes nodes(2, 1, "echo $TF_CONFIG");
  for (auto& post : nodes.posts) {
    post->assignment.spec.distribution = "tensorflow";
    post->assignment.spec.parameter_servers = 1;
  }
  nodes.carry();
  const auto task = [&](int rank) {
    return wire::dump(wire::parse(nodes.server.console(rank)).value()["task"]);
  };
  CHECK(task(0) == R"({"type":"worker","index":0})");
  CHECK(task(1) == R"({"type":"ps","index":0})");
  CHECK(task(2) == R"({"type":"worker","index":1})");
  CHECK(nodes.server.seen().console.size() == 3);
}

namespace {

// A parameter server says that it is up and waits for ever; a worker does `work`.
std::string serve_or(const std::string& work) {
  return "case $TF_CONFIG in *'\"type\": \"ps\"'*) trap 'echo asked; exit 5' TERM; touch "
         "../../../serving; "
         "while :; do sleep 0.02; done;; esac; "
         "while [ ! -e ../../../serving ]; do sleep 0.02; done; " +
         work;
}

}  // namespace

TEST_CASE("parameter servers are told to end when all workers have ended well") {
  Nodes nodes(1, 2, serve_or("echo worked"));
  nodes[0].assignment.spec.distribution = "tensorflow";
  nodes[0].assignment.spec.parameter_servers = 1;
  nodes.carry();
  CHECK(nodes.server.console(2).ends_with("asked\n"));
  const AttemptEnd end = nodes.server.end(0);
  CHECK(end.cause == EndCause::exited);
  CHECK(end.exit_code == 0);
  CHECK(end.error.empty());
  CHECK(end.ranks.size() == 3);
}

TEST_CASE("parameter servers serve until the workers of the last node have ended") {
  Nodes nodes(2, 1,
              serve_or("while [ $RANK != 0 ] && [ ! -e ../../../go ]; do sleep 0.02; done; "
                       "echo worked"));
  for (auto& post : nodes.posts) {
    post->assignment.spec.distribution = "tensorflow";
    post->assignment.spec.parameter_servers = 1;
  }
  nodes.server.start();
  nodes.launch_all();
  // The first node's worker has ended, and the second's has not.
  REQUIRE(eventually([&] { return nodes.server.saw(ReportKind::finalizing, 0); }));
  pollfd ended{nodes[0].child.pidfd.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 300) == 0);
  REQUIRE(write_file(nodes.dir.path() / "go", ""));
  nodes.wait_all();
  CHECK(nodes.server.console(1).ends_with("asked\n"));
  for (const int node : {0, 1}) {
    CHECK(nodes.server.end(node).cause == EndCause::exited);
    CHECK(nodes.server.end(node).exit_code == 0);
  }
}

TEST_CASE("a worker that fails fails the run, and so does a parameter server before its time") {
  Nodes worker(1, 1, serve_or("exit 3"));
  Nodes server(1, 1, "case $TF_CONFIG in *'\"type\": \"ps\"'*) exit 4;; esac; exec sleep 1000");
  for (Nodes* nodes : {&worker, &server}) {
    (*nodes)[0].assignment.spec.distribution = "tensorflow";
    (*nodes)[0].assignment.spec.parameter_servers = 1;
    nodes->carry();
  }
  CHECK(worker.server.end(0).exit_code == 3);
  CHECK(worker.server.end(0).rank == 0);
  CHECK(server.server.end(0).exit_code == 4);
  CHECK(server.server.end(0).rank == 1);
}
