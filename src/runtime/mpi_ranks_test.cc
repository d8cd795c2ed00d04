#include "runtime/mpi_ranks.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/command.h"
#include "base/process.h"
#include "base/text.h"
#include "runtime/mpi_programs.h"

namespace trainyard::runtime {
namespace {

constexpr seconds kRanksPatience{60};

// This test program again, as one of the programs below.
TEST_CASE("be a program of MPI's" * doctest::skip()) {
  _exit(mpi_program(split(mpi_variable("TEST_MPI_WORDS"), '\n')));
}

// One node's ranks under MPI, and what became of them.
struct Node {
  TempDir dir;
  std::unique_ptr<MpiRanks> ranks;
  std::vector<RankSet::Outputs> outputs;
  std::vector<std::string> out, err;
  std::vector<RankEnded> ended;
  std::optional<StartFailed> start_failed;
  std::optional<LaunchFailed> launch_failed;
  bool stopped_elsewhere = false;
  bool dead = false;
  std::string path = "/usr/bin:/bin";

  // Init is the supervisor's child, and the programs are found by a script: doctest would take
  // their words for its own.
  Node(size_t count, Isolation isolation, MpiPlace place = {}) {
    const fs::path program = dir.path() / "trainyard";
    REQUIRE(write_file(program,
                       "#!/bin/sh\nTEST_MPI_WORDS=$(printf '%s\\n' \"$@\") exec " +
                           self_path().value().string() +
                           " --no-skip --quiet '-tc=be a program of MPI*'\n",
                       0755));
    auto made =
        MpiRanks::prepare({count, dir.path(), "mark-" + dir.path().filename().string(), isolation},
                          program, dir.path() / "scratch");
    REQUIRE_MESSAGE(made, made.error().message);
    ranks = *std::move(made);
    place.per_node = static_cast<int>(count);
    ranks->set_place(place);
    for (size_t i = 0; i < count; ++i) outputs.push_back(ranks->take_outputs(static_cast<int>(i)));
    out.resize(count);
    err.resize(count);
  }

  void start(const std::string& script) {
    std::vector<RankCommand> commands;
    for (size_t i = 0; i < outputs.size(); ++i) {
      commands.push_back({{"sh", "-c", script},
                          {{"PATH", path},
                           {"RANK", std::to_string(i)},
                           {"TRAINYARD_WORK", dir.path()},
                           {"TRAINYARD_TOKEN", "tya_test"}}});
    }
    REQUIRE(ranks->start(commands));
  }

  void read_outputs() {
    char buffer[4096];
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (auto& [fd, text] : {std::pair{&outputs[i].out, &out[i]}, {&outputs[i].err, &err[i]}}) {
        ssize_t got = 0;
        while ((got = read(fd->get(), buffer, sizeof buffer)) > 0) {
          text->append(buffer, static_cast<size_t>(got));
        }
        if (got == 0) fd->reset();
      }
    }
  }

  void on(const AllStarted&) {}
  void on(const StartFailed& event) { start_failed = event; }
  void on(const RankEnded& event) { ended.push_back(event); }
  void on(const Usage&) {}
  void on(const AllDead&) { dead = true; }
  void on(const LaunchFailed& event) { launch_failed = event; }
  void on(const StoppedElsewhere&) { stopped_elsewhere = true; }

  // Until all is dead; `look` is called whenever there may be something new.
  template <class F>
  void carry(F&& look) {
    const auto until = std::chrono::steady_clock::now() + kRanksPatience;
    while (!dead) {
      REQUIRE_MESSAGE(std::chrono::steady_clock::now() < until, "the ranks do not end");
      std::vector<pollfd> polled{{ranks->event_fd(), POLLIN, 0}};
      for (const auto& each : outputs) polled.push_back({each.out.get(), POLLIN, 0});
      poll(polled.data(), polled.size(), 50);
      read_outputs();
      while (const std::optional<RankEvent> event = ranks->next_event()) {
        std::visit([&](const auto& each) { on(each); }, *event);
      }
      look();
    }
    read_outputs();
  }
  void carry() {
    carry([] {});
  }
  const RankEnded* end_of(int rank) const {
    for (const RankEnded& each : ended) {
      if (each.rank == rank) return &each;
    }
    return nullptr;
  }
};

std::vector<Isolation> isolations() {
  const bool allowed = Ranks::prepare({1, "/", "mark", Isolation::pid_namespace}).has_value();
  return allowed ? std::vector{Isolation::pid_namespace, Isolation::sweep}
                 : std::vector{Isolation::sweep};
}

bool no_mpirun() {
  if (!find_program("mpirun").empty()) return false;
  MESSAGE("there is no mpirun here: not tested");
  return true;
}

TEST_CASE("mpirun's ranks have their numbers, outputs and ends, each its own") {
  if (no_mpirun()) return;
  for (const Isolation isolation : isolations()) {
    Node node(3, isolation);
    node.start(
        "echo out $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $RANK; echo err $RANK >&2; "
        "test -z \"$TRAINYARD_MPI_SOCKET\" && pwd && ps -o pid= -p $PPID > pid");
    node.carry();
    const std::string pwd = node.dir.path().string() + "\n";
    for (size_t i = 0; i < 3; ++i) {
      const std::string number = std::to_string(i);
      CHECK(node.out[i] == "out " + number + " 3 " + number + "\n" + pwd);
      CHECK(node.err[i] == "err " + number + "\n");
      const RankEnded* end = node.end_of(static_cast<int>(i));
      REQUIRE(end);
      CHECK(end->exit_code == 0);
    }
    CHECK_FALSE(node.launch_failed);
  }
}

TEST_CASE("a rank that fails is told of with its own code, whatever mpirun makes of it") {
  if (no_mpirun()) return;
  for (const Isolation isolation : isolations()) {
    Node node(3, isolation);
    node.start(
        "trap 'echo saved; exit 0' TERM; : > up$RANK; "
        "if test $RANK = 1; then while ! test -e up0 -a -e up2; do sleep 0.02; done; exit 7; fi; "
        "while :; do sleep 0.02; done");
    bool told = false;
    node.carry([&] {
      // As the supervisor does.
      if (!node.ended.empty() && !std::exchange(told, true)) node.ranks->terminate_first();
    });
    REQUIRE(node.ended.size() == 3);
    CHECK(node.ended[0].rank == 1);
    CHECK(node.ended[0].exit_code == 7);
    CHECK(node.end_of(0)->exit_code == 0);
    CHECK(node.out[0] == "saved\n");
    CHECK(node.out[2] == "saved\n");
  }
}

TEST_CASE("a rank that is killed is told of by its signal") {
  if (no_mpirun()) return;
  Node node(2, Isolation::automatic);
  // A rank that has not begun when the other is killed is not terminated but never starts.
  node.start(
      ": > up$RANK; if test $RANK = 1; then while ! test -e up0; do sleep 0.02; done; "
      "kill -9 $$; fi; exec sleep 1000");
  node.carry([&] {
    if (!node.ended.empty()) node.ranks->terminate_first();
  });
  CHECK(node.ended[0].rank == 1);
  CHECK(node.ended[0].signal == SIGKILL);
  REQUIRE(node.end_of(0) != nullptr);
  CHECK(node.end_of(0)->signal == SIGTERM);
}

TEST_CASE("all ranks failing at once needs no word of ours, and nothing of MPI's stays") {
  if (no_mpirun()) return;
  fs::path scratch;
  {
    Node node(2, Isolation::automatic);
    scratch = node.dir.path() / "scratch";
    node.start("ls -d ../*/scratch/ompi* > /dev/null; exit 3");
    node.carry();
    CHECK(node.ended.size() == 2);
    CHECK_FALSE(node.launch_failed);
    node.ranks.reset();
    CHECK_FALSE(fs::exists(scratch));
  }
}

TEST_CASE("a program that is not there is named by each rank as others name it") {
  if (no_mpirun()) return;
  Node node(2, Isolation::automatic);
  std::vector<RankCommand> commands(
      2, {{"pyhton"}, {{"PATH", node.path}, {"TRAINYARD_WORK", node.dir.path()}}});
  REQUIRE(node.ranks->start(commands));
  node.carry();
  REQUIRE(node.start_failed);
  CHECK(exit_code_of(node.start_failed->failure) == 127);
}

TEST_CASE("a wrapper that is killed counts as its rank killed") {
  if (no_mpirun()) return;
  Node node(2, Isolation::automatic);
  node.start("test $RANK = 1 && kill -9 $PPID; exec sleep 1000");
  node.carry([&] {
    if (!node.ended.empty()) node.ranks->terminate_first();
  });
  REQUIRE_FALSE(node.ended.empty());
  CHECK(node.ended[0].rank == 1);
  CHECK(node.ended[0].signal == SIGKILL);
}

TEST_CASE("a killed mpirun is told of, and no rank is blamed") {
  if (no_mpirun()) return;
  Node node(2, Isolation::pid_namespace);
  node.start("test $RANK = 1 && kill -9 $(pidof mpirun mpirun.openmpi orterun); exec sleep 1000");
  node.carry([&] {
    if (node.launch_failed) node.ranks->terminate_first();
  });
  REQUIRE(node.launch_failed);
  CHECK(node.launch_failed->exit_code == 137);
  CHECK_FALSE(node.launch_failed->before);
}

TEST_CASE("without mpirun one node's ranks run plainly, with a warning") {
  Node node(2, Isolation::automatic);
  const fs::path bin = node.dir.path() / "bin";  // What a script needs, and no mpirun.
  REQUIRE(make_dirs(bin));
  for (const char* name : {"sh", "printf"}) {
    fs::create_symlink(
        find_program(name).empty() ? "/usr/bin/" + std::string(name) : find_program(name).string(),
        bin / name);
  }
  node.path = bin;
  node.start("echo $OMPI_COMM_WORLD_RANK; test $RANK = 0 || exit 4");
  node.carry();
  CHECK(node.out[0] == "0\n");
  CHECK(node.out[1] == "1\n");
  CHECK(node.err[0].find("mpirun was not found in PATH") != std::string::npos);
  REQUIRE(node.end_of(1));
  CHECK(node.end_of(1)->exit_code == 4);
}

TEST_CASE("several nodes without MPI say what is missing") {
  for (const int number : {0, 1}) {
    Node node(1, Isolation::automatic,
              {.hosts = {{"127.0.0.1", 1}, {"127.0.0.2", 1}}, .node = number});
    const fs::path bin = node.dir.path() / "bin";
    REQUIRE(make_dirs(bin));
    fs::create_symlink("/bin/sh", bin / "sh");
    node.path = bin;
    node.start("true");
    node.carry();
    REQUIRE(node.launch_failed);
    CHECK(node.launch_failed->before);
    CHECK(node.launch_failed->exit_code == 127);
    CHECK(node.launch_failed->text.find("not found in PATH on") != std::string::npos);
    CHECK(node.launch_failed->text.find("openmpi-bin") != std::string::npos);
  }
}

TEST_CASE("another MPI's mpirun is named and refused") {
  Node node(1, Isolation::automatic);
  const fs::path bin = node.dir.path() / "bin";
  REQUIRE(make_dirs(bin));
  REQUIRE(write_file(bin / "mpirun", "#!/bin/sh\necho 'HYDRA build details:'\n", 0755));
  node.path = bin.string() + ":/usr/bin:/bin";
  node.start("true");
  node.carry();
  REQUIRE(node.launch_failed);
  CHECK(node.launch_failed->text.find("HYDRA build details") != std::string::npos);
}

TEST_CASE("a command that is an mpirun already runs once, as it is") {
  if (no_mpirun()) return;
  Node node(3, Isolation::automatic);
  std::vector<RankCommand> commands;
  for (int i = 0; i < 3; ++i) {
    commands.push_back(
        {{"sh", "-c", "mpirun"}, {{"PATH", node.path}, {"TRAINYARD_WORK", node.dir.path()}}});
    commands.back().command = {"mpirun", "-np", "2", "--oversubscribe", "sh", "-c", "echo hello"};
    if (geteuid() == 0) {
      commands.back().command.insert(commands.back().command.begin() + 1, "--allow-run-as-root");
    }
  }
  REQUIRE(node.ranks->start(commands));
  node.carry();
  CHECK(node.out[0] == "hello\nhello\n");
  CHECK(node.ended.size() == 3);
  CHECK_FALSE(node.launch_failed);
}

}  // namespace
}  // namespace trainyard::runtime
