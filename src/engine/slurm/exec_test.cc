#include "engine/slurm/exec.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/fake_clock.h"
#include "engine/slurm/queue_text.h"
#include "engine/slurm/scale_nodes.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;

namespace {

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

std::string comment(const char* server) { return comment_of(server, {RunId{"calm-finch-1"}, 1}); }

// Says what it is told to, and keeps what was run.
struct FakeSlurm : Commands {
  std::vector<Node> seen;
  std::vector<Job> jobs;
  std::vector<std::vector<std::string>> ran;
  std::vector<std::string> prints;
  std::vector<StreamEnd> ends;
  std::function<void()> meanwhile = [] {};
  bool ended_early = false;

  Result<int64_t> submit(const std::string&) override { return 1; }
  Result<std::vector<Job>> queue() override { return jobs; }
  Result<std::vector<Node>> nodes() override { return seen; }
  Status cancel(const std::string&, int64_t) override { return {}; }
  Result<std::string> ask(std::vector<std::string>) override { return ""; }
  void stop() override {}
  Result<StreamEnd> stream(std::vector<std::string> command, const Stream& stream) override {
    ran.push_back(std::move(command));
    const size_t turn = ran.size() - 1;
    stream.print(prints.at(turn));
    meanwhile();
    ended_early = !stream.wanted();
    return ends.at(turn);
  }
};

struct Cluster {
  FakeClock clock;
  std::shared_ptr<FakeSlurm> slurm = std::make_shared<FakeSlurm>();
  ComputeSpec compute;
  std::string printed;
  bool wanted = true;

  void add(std::string name, std::string state, std::string reason = {}) {
    Node node;
    node.name = std::move(name);
    node.state = std::move(state);
    node.reason = std::move(reason);
    node.default_partition = true;
    slurm->seen.push_back(node);
  }
  void answer(std::string prints, int code, std::string errors = {}) {
    slurm->prints.push_back(std::move(prints));
    slurm->ends.push_back({code, std::move(errors)});
  }
  Result<NodeShell::Ended> run(const std::string& node) {
    const auto shell = make_shell({.compute = compute,
                                   .server_id = "me",
                                   .owner = "me/3",
                                   .clock = clock,
                                   .commands = slurm});
    return shell->run({.node = node,
                       .command = {"hostname", "-f"},
                       .print = [&](std::string_view text) { printed += text; },
                       .wanted = [&] { return wanted; }});
  }
};

}  // namespace

TEST_CASE("a command is a small job on its node that starts soon or not at all") {
  ComputeSpec compute;
  compute.partition = "gpu";
  compute.account = "lab";
  compute.sbatch = {"--gres=gpu:4", "--reservation=night"};
  const auto words = exec_words(
      {.node = "n7", .command = {"a", "b c"}, .timeout = seconds(600), .wait = seconds(5)},
      compute);
  CHECK(words.front() == "srun");
  for (const char* word : {"--nodelist=n7", "--partition=gpu", "--account=lab", "--immediate=5",
                           "--reservation=night", "--time=12"}) {
    CHECK_MESSAGE(has(words, word), word);
  }
  CHECK_FALSE(has(words, "--gres=gpu:4"));
  CHECK(words[words.size() - 2] == "a");
  CHECK(words.back() == "b c");
}

TEST_CASE("beside a job it asks for nothing of its own") {
  const auto words = exec_words({.node = "n7", .command = {"a"}, .beside = 12}, {});
  CHECK(has(words, "--jobid=12"));
  CHECK(has(words, "--overlap"));
  CHECK(std::ranges::none_of(words, [](const std::string& word) {
    return word.starts_with("--immediate") || word.starts_with("--time");
  }));
}

TEST_CASE("the word that it has begun is taken out, however it is cut") {
  for (size_t cut = 0; cut <= ExecStart::kWord.size(); ++cut) {
    ExecStart start;
    const std::string all = "prolog tr" + std::string(ExecStart::kWord) + "out";
    std::string printed(start.take(std::string_view(all).substr(0, 9 + cut)));
    printed += start.take(std::string_view(all).substr(9 + cut));
    CHECK(start.begun());
    CHECK(printed == "out");
  }
}

TEST_CASE("what it prints and its exit code come back") {
  Cluster cluster;
  cluster.add("n1", "idle");
  cluster.answer("trainyard:begun\nhi\n", 7, "srun: error: n1: task 0: Exited with exit code 7\n");
  const auto ended = cluster.run("n1");
  REQUIRE(ended);
  CHECK(ended->code == 7);
  CHECK(ended->words.empty());
  CHECK(cluster.printed == "hi\n");
}

TEST_CASE("it goes beside a job of ours that has the node, and of nobody else's") {
  Cluster cluster;
  cluster.add("n1", "allocated");
  cluster.slurm->jobs = {
      {.number = 5, .state = "RUNNING", .comment = comment("other"), .node_list = "n[1-2]"},
      {.number = 4, .state = "RUNNING", .comment = comment("me/4"), .node_list = "n[1-2]"},
      {.number = 6, .state = "RUNNING", .comment = comment("me/3"), .node_list = "n[2-3]"},
      {.number = 7, .state = "PENDING", .comment = comment("me/3"), .node_list = "n1"},
      {.number = 8, .state = "RUNNING", .comment = comment("me/3"), .node_list = "n[1-2]"}};
  cluster.answer("trainyard:begun\n", 0);
  REQUIRE(cluster.run("n1"));
  CHECK(has(cluster.slurm->ran.at(0), "--jobid=8"));
}

TEST_CASE("where that job has just ended, it gets one of its own") {
  Cluster cluster;
  cluster.add("n1", "mixed");
  cluster.slurm->jobs = {
      {.number = 8, .state = "RUNNING", .comment = comment("me/3"), .node_list = "n1"}};
  cluster.answer("", 1, "srun: error: Unable to confirm allocation for job 8: Invalid job id\n");
  cluster.answer("trainyard:begun\n", 0);
  REQUIRE(cluster.run("n1"));
  CHECK_FALSE(has(cluster.slurm->ran.at(1), "--jobid=8"));
}

TEST_CASE("of a node that takes none, Slurm is not asked to run any") {
  Cluster cluster;
  cluster.add("n1", "drained", "fan");
  const auto drained = cluster.run("n1");
  REQUIRE_FALSE(drained);
  CHECK(drained.error().kind == ErrorKind::unavailable);
  CHECK(drained.error().message.find("fan") != std::string::npos);
  CHECK(cluster.run("n9").error().kind == ErrorKind::not_found);
  cluster.compute.node_up = "/bin/up";
  cluster.slurm->seen.clear();
  cluster.add("n1", "drained", mark_of("me", Mark::off));
  CHECK(cluster.run("n1").error().message.find("is off") != std::string::npos);
  CHECK(cluster.slurm->ran.empty());
}

TEST_CASE("a busy node is told as one, with what to do") {
  Cluster cluster;
  cluster.add("n1", "allocated");
  cluster.answer("", 1,
                 "srun: job 5 queued and waiting for resources\n"
                 "srun: error: Unable to allocate resources: Requested nodes are busy\n");
  const auto busy = cluster.run("n1");
  REQUIRE_FALSE(busy);
  CHECK(busy.error().message == "node n1 is busy: no room for a command within 10 s");
  CHECK(busy.error().hint.find("--wait") != std::string::npos);
}

TEST_CASE("it is ended at its time limit, which counts from its beginning") {
  Cluster cluster;
  cluster.add("n1", "idle");
  cluster.answer("trainyard:begun\n", 137);
  cluster.slurm->meanwhile = [&] { cluster.clock.advance(seconds(59)); };
  REQUIRE(cluster.run("n1"));
  CHECK_FALSE(cluster.slurm->ended_early);
  cluster.answer("trainyard:begun\n", 137);
  cluster.slurm->meanwhile = [&] { cluster.clock.advance(seconds(60)); };
  const auto late = cluster.run("n1");
  REQUIRE(late);
  CHECK(late->code == 124);
  CHECK(late->words == "it did not end within 60 s");
}

TEST_CASE("it is ended when nobody wants it any more") {
  Cluster cluster;
  cluster.add("n1", "idle");
  cluster.answer("trainyard:begun\n", 137);
  cluster.wanted = false;
  REQUIRE(cluster.run("n1"));
  CHECK(cluster.slurm->ended_early);
}
