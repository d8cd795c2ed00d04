#include "runtime/ranks.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>

#include "base/clock.h"
#include "runtime/proc_table.h"

using namespace trainyard;
using namespace trainyard::runtime;

namespace {

RankCommand shell(const std::string& script) {
  return {{"sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}}};
}

// Some containers allow no namespace.
std::vector<Isolation> rank_isolations() {
  const bool allowed = Ranks::prepare({1, "/", "mark", Isolation::pid_namespace}).has_value();
  if (!allowed) MESSAGE("no PID namespace is allowed here: only the sweep is tested");
  return allowed ? std::vector{Isolation::pid_namespace, Isolation::sweep}
                 : std::vector{Isolation::sweep};
}

struct RanksOutcome {
  bool started = false;
  std::optional<StartFailed> start_failed;
  std::vector<RankEnded> ended;
  std::optional<AllDead> dead;
  std::string output;  // Of rank 0.
};

// False at the end.
bool read_some(const Fd& fd, std::string& text) {
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) return got < 0;
    text.append(buffer, static_cast<size_t>(got));
  }
}

// Ranks that wait for their word.
struct Ready {
  std::unique_ptr<Ranks> ranks;
  std::vector<RankCommand> commands;
  Ranks* operator->() const { return ranks.get(); }
  void start() const { REQUIRE(ranks->start(commands)); }
};

// Until all is dead; `on_output` sees rank 0's output so far whenever there is more.
template <class F>
RanksOutcome carry(const Ready& ready, F&& on_output) {
  RanksOutcome outcome;
  Ranks& ranks = *ready.ranks;
  const Ranks::Outputs outputs = ranks.take_outputs(0);
  ready.start();
  bool open = true;
  while (!outcome.dead) {
    pollfd polled[2] = {{ranks.event_fd(), POLLIN, 0}, {open ? outputs.out.get() : -1, POLLIN, 0}};
    REQUIRE(poll(polled, 2, 20'000) > 0);
    const size_t before = outcome.output.size();
    open = open && read_some(outputs.out, outcome.output);
    if (outcome.output.size() > before) on_output(outcome.output);
    while (const std::optional<RankEvent> event = ranks.next_event()) {
      if (std::holds_alternative<AllStarted>(*event)) outcome.started = true;
      if (const auto* failed = std::get_if<StartFailed>(&*event)) outcome.start_failed = *failed;
      if (const auto* ended = std::get_if<RankEnded>(&*event)) outcome.ended.push_back(*ended);
      if (const auto* dead = std::get_if<AllDead>(&*event)) outcome.dead = *dead;
    }
  }
  read_some(outputs.out, outcome.output);
  return outcome;
}

RanksOutcome carry(const Ready& ready) {
  return carry(ready, [](const std::string&) {});
}

Ready prepare(std::vector<RankCommand> commands, const fs::path& folder, Isolation isolation) {
  Result<std::unique_ptr<Ranks>> ranks =
      Ranks::prepare({commands.size(), folder, "mark-" + folder.filename().string(), isolation});
  REQUIRE(ranks);
  return {*std::move(ranks), std::move(commands)};
}

// In a child that is a supervisor to be killed.
[[noreturn]] void hold(const RanksOptions& options, const std::string& script, int tell_init = -1) {
  auto ranks = Ranks::prepare(options);
  if (!ranks) _exit(1);
  const pid_t init = (*ranks)->leftovers().init;
  if (tell_init >= 0 && write(tell_init, &init, sizeof init) != sizeof init) _exit(1);
  if (!(*ranks)->start({shell(script)})) _exit(1);
  for (;;) pause();
}

// A fifo whose end says that its last writer is dead.
struct Alive {
  fs::path path;
  Fd fd;
  explicit Alive(const fs::path& folder) : path(folder / "alive") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    // Read and write at first: the writers need not wait for us, nor we for them.
    fd = open_file(path, O_RDWR | O_NONBLOCK).value();
  }
  void wait_for_writers(size_t count) {
    std::string text;
    while (text.size() < count) {
      pollfd polled{fd.get(), POLLIN, 0};
      REQUIRE(poll(&polled, 1, 20'000) > 0);
      read_some(fd, text);
    }
    Fd reader = open_file(path, O_RDONLY | O_NONBLOCK).value();
    fd = std::move(reader);
  }
  bool gone_within(int ms) {
    pollfd polled{fd.get(), 0, 0};
    return poll(&polled, 1, ms) > 0 && (polled.revents & POLLHUP) != 0;
  }
};

// A child, and a grandchild that left session, parent and terminal behind, both writing to `alive`.
constexpr const char* kDaemons =
    "(setsid sh -c '(exec 3>alive; printf d >&3; exec sleep 1000) &' &);"
    "sh -c 'exec 3>alive; printf c >&3; exec sleep 1000' &";

}  // namespace

TEST_CASE("exit codes and signals come back as a shell has them") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    const auto ranks =
        prepare({shell("exit 3"), shell("kill -9 $$"), shell("true")}, folder.path(), isolation);
    const RanksOutcome outcome = carry(ranks);
    CHECK(outcome.started);
    REQUIRE(outcome.ended.size() == 3);
    for (const RankEnded& ended : outcome.ended) {
      CHECK(ended.exit_code == (ended.rank == 0 ? 3 : ended.rank == 1 ? 137 : 0));
      CHECK(ended.signal == (ended.rank == 1 ? 9 : 0));
    }
    CHECK_FALSE(outcome.dead->init_lost);
    CHECK(outcome.dead->usage.memory_peak_bytes > 0);
  }
}

TEST_CASE("in a namespace a process finds itself in /proc") {
  if (rank_isolations().size() < 2) return;
  const TempDir folder;
  const auto ranks = prepare({shell("read pid rest < /proc/self/stat; echo $pid $$; ls /proc | "
                                    "grep -c '^[0-9]'")},
                             folder.path(), Isolation::pid_namespace);
  const RanksOutcome outcome = carry(ranks);
  const size_t space = outcome.output.find(' ');
  REQUIRE(space != std::string::npos);
  CHECK(outcome.output.substr(0, space) ==
        outcome.output.substr(space + 1, outcome.output.find('\n') - space - 1));
  CHECK(outcome.output.substr(outcome.output.find('\n') + 1).size() == 2);  // A few processes.
}

TEST_CASE("a program that cannot be started kills the ranks started before it") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    const auto ranks = prepare({shell("sleep 1000"), {{"pyhton"}, {{"PATH", "/usr/bin"}}}},
                               folder.path(), isolation);
    const RanksOutcome outcome = carry(ranks);
    CHECK_FALSE(outcome.started);
    REQUIRE(outcome.start_failed);
    CHECK(outcome.start_failed->rank == 1);
    CHECK(exit_code_of(outcome.start_failed->failure) == 127);
  }
}

TEST_CASE("when the last rank has ended, its daemons are killed") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    Alive alive(folder.path());
    const auto ranks =
        prepare({shell(std::string(kDaemons) + "echo up; sleep 0.2")}, folder.path(), isolation);
    const RanksOutcome outcome =
        carry(ranks, [&](const std::string&) { alive.wait_for_writers(2); });
    CHECK(outcome.ended.size() == 1);
    CHECK(alive.gone_within(0));
  }
}

TEST_CASE("kill -9 of the supervisor kills everything, double-forked daemons too") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    Alive alive(folder.path());
    const pid_t supervisor = fork();
    if (supervisor == 0) {
      hold({1, folder.path(), "mark-k9", isolation}, std::string(kDaemons) + "exec sleep 1000");
    }
    alive.wait_for_writers(2);
    CHECK_FALSE(alive.gone_within(0));
    kill(supervisor, SIGKILL);
    CHECK(alive.gone_within(1000));
    waitpid(supervisor, nullptr, 0);
  }
}

TEST_CASE("kill -9 of init itself kills everything and is noticed") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    Alive alive(folder.path());
    const auto ranks = prepare({shell(std::string(kDaemons) + "echo up; exec sleep 1000")},
                               folder.path(), isolation);
    const pid_t init = ranks->leftovers().init;
    const RanksOutcome outcome = carry(ranks, [&](const std::string&) {
      alive.wait_for_writers(2);
      kill(init, SIGKILL);
    });
    CHECK(outcome.dead->init_lost);
    CHECK(alive.gone_within(0));
  }
}

TEST_CASE("what is left when supervisor and init are both killed is found by its mark") {
  const TempDir folder;
  Alive alive(folder.path());
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    hold({1, folder.path(), "mark-sweep", Isolation::sweep},
         std::string(kDaemons) + "exec sleep 1000", ends[1]);
  }
  pid_t init = 0;
  REQUIRE(read(ends[0], &init, sizeof init) == sizeof init);
  alive.wait_for_writers(2);
  kill(init, SIGKILL);
  kill(supervisor, SIGKILL);
  waitpid(supervisor, nullptr, 0);
  CHECK_FALSE(alive.gone_within(100));
  CHECK(kill_leftovers({.mark = "mark-sweep"}));
  CHECK(alive.gone_within(0));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a script saves on SIGTERM while its children live") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    // The child would say so if it got the signal.
    const auto ranks = prepare({shell("sh -c 'trap \"echo child-got-it\" TERM; while :; do sleep "
                                      "0.05; done' & child=$!;"
                                      "trap 'kill -0 $child && echo saved; exit 0' TERM;"
                                      "echo up; while :; do sleep 0.05; done")},
                               folder.path(), isolation);
    bool asked = false;
    const RanksOutcome outcome = carry(ranks, [&](const std::string&) {
      if (!std::exchange(asked, true)) ranks->terminate_first();
    });
    CHECK(outcome.output == "up\nsaved\n");
    REQUIRE(outcome.ended.size() == 1);
    CHECK(outcome.ended[0].exit_code == 0);
  }
}

TEST_CASE("a rank gets SIGTERM once, from us or from a scheduler that signals every process") {
  for (const Isolation isolation : rank_isolations()) {
    for (const bool by_scheduler : {false, true}) {
      const TempDir folder;
      const auto ranks = prepare({shell("trap 'echo first' TERM; (trap 'echo child; exit' TERM; "
                                        "echo up; while :; do sleep 0.05; done) & while :; do "
                                        "wait; done")},
                                 folder.path(), isolation);
      const RanksOutcome outcome = carry(ranks, [&](const std::string& text) {
        if (text == "up\n" && by_scheduler) {
          for (const ProcessRow& row : descendants(read_processes(), getpid())) {
            const auto is_child = row.parent == getpid() || row.group == row.pid;
            if (is_child) kill(row.pid, SIGTERM);
          }
        }
        if (text == "up\n") ranks->terminate_first();
        if (text == "up\nfirst\n") ranks->terminate_group();
        if (text.find("child") != std::string::npos) ranks->kill_all();
      });
      CHECK(outcome.output == "up\nfirst\nchild\n");
    }
  }
}

TEST_CASE("SIGTERM to the group reaches the children, SIGKILL everything") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    const auto ranks = prepare({shell("trap '' TERM; (trap 'echo child; exit' TERM; echo up; while "
                                      ":; do sleep 0.05; done) & wait; sleep 1000")},
                               folder.path(), isolation);
    const RanksOutcome outcome = carry(ranks, [&](const std::string& text) {
      if (text == "up\n") ranks->terminate_group();
      if (text.find("child") != std::string::npos) ranks->kill_all();
    });
    CHECK(outcome.output == "up\nchild\n");
    REQUIRE(outcome.ended.size() == 1);
    CHECK(outcome.ended[0].signal == SIGKILL);
  }
}

TEST_CASE("CPU time and memory of all processes are sampled") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    const auto ranks =
        prepare({shell("python3 -c \"import time; b = bytearray(100 << 20)\nwhile "
                       "time.process_time() < 0.5: pass\ntime.sleep(1000)\" & wait")},
                folder.path(), isolation);
    const Ranks::Outputs outputs = ranks->take_outputs(0);
    ranks.start();
    Usage last;
    bool seen = false;
    int samples = 0;
    for (bool dead = false; !dead;) {
      pollfd polled{ranks->event_fd(), POLLIN, 0};
      REQUIRE(poll(&polled, 1, 60'000) > 0);
      while (const std::optional<RankEvent> event = ranks->next_event()) {
        if (const auto* usage = std::get_if<Usage>(&*event)) {
          // The kernel counts in ticks and cuts off: half a second may read as 0.49.
          seen = seen || (usage->memory_bytes > 100 << 20 && usage->cpu_seconds >= 0.4);
          if (seen || ++samples > 60) ranks->kill_all();
        }
        if (const auto* all = std::get_if<AllDead>(&*event)) {
          last = all->usage;
          dead = true;
        }
      }
    }
    CHECK(seen);
    CHECK(last.cpu_seconds >= 0.4);
    CHECK(last.memory_peak_bytes > 100 << 20);
  }
}

TEST_CASE("commands and variables larger than a pipe arrive, each with its own rank") {
  const TempDir folder;
  std::vector<RankCommand> commands;
  for (const char* name : {"a", "b"}) {
    commands.push_back(shell("[ ${#BIG} = 100000 ] && [ $NAME = " + std::string(name) + " ]"));
    commands.back().environment["BIG"] = std::string(100'000, 'x');
    commands.back().environment["NAME"] = name;
    for (int i = 0; i < 20; ++i) {
      commands.back().environment["V" + std::to_string(i)] = std::string(50'000, 'y');
    }
  }
  const auto ranks = prepare(commands, folder.path(), Isolation::automatic);
  const RanksOutcome outcome = carry(ranks);
  REQUIRE(outcome.ended.size() == 2);
  for (const RankEnded& ended : outcome.ended) CHECK(ended.exit_code == 0);
}

TEST_CASE("the destructor leaves nothing behind") {
  for (const Isolation isolation : rank_isolations()) {
    const TempDir folder;
    Alive alive(folder.path());
    {
      const auto ranks =
          prepare({shell(std::string(kDaemons) + "exec sleep 1000")}, folder.path(), isolation);
      ranks.start();
      alive.wait_for_writers(2);
    }
    CHECK(alive.gone_within(0));
  }
}

TEST_CASE("without privileges ranks live in a namespace too, under their own user") {
  if (geteuid() != 0 || rank_isolations().size() < 2) return;  // Every other test is then this one.
  const TempDir folder;
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  Alive alive(folder.path());
  REQUIRE(chmod(alive.path.c_str(), 0666) == 0);
  constexpr unsigned kNobody = 65534;
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    hold({1, folder.path(), "mark-nobody", Isolation::automatic},
         "id -u > uid; echo $$ > pid;" + std::string(kDaemons) + "exec sleep 1000");
  }
  alive.wait_for_writers(2);
  CHECK(read_file(folder.path() / "uid").value() == "65534\n");
  CHECK(read_file(folder.path() / "pid").value() == "2\n");
  kill(supervisor, SIGKILL);
  CHECK(alive.gone_within(1000));
  waitpid(supervisor, nullptr, 0);
}

TEST_CASE("a hundred ranks start, with the limit of open files they would have without us") {
  const TempDir folder;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{64, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  std::vector<RankCommand> commands(100, shell("[ $(ulimit -n) = 64 ]"));
  const auto ranks = prepare(commands, folder.path(), Isolation::automatic);
  const RanksOutcome outcome = carry(ranks);
  setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(outcome.ended.size() == 100);
  for (const RankEnded& ended : outcome.ended) CHECK(ended.exit_code == 0);
}

TEST_CASE("what ranks write into a shared environment is theirs alone") {
  if (!Ranks::prepare({1, "/", "mark", Isolation::pid_namespace})) {
    MESSAGE("skipped: no namespace is allowed here");
    return;
  }
  TempDir temp;
  const fs::path shelf = temp.path() / "shelf";
  const fs::path root = shelf / "hash" / "root";
  REQUIRE(make_dirs(root));
  REQUIRE(write_file(root / "module.py", "as it was"));
  SharedRoot shared{.shelf = shelf, .root = root, .layer = {}, .below = {}};
  int layers = 0;
  const auto said = [&](const std::string& script) {
    // A layer is used once.
    shared.layer = temp.path() / ("layer-" + std::to_string(++layers));
    REQUIRE(make_dirs(shared.layer));
    RankCommand command = shell("cd " + root.string() + "; " + script);
    command.shared = shared;
    return carry(prepare({command}, temp.path(), Isolation::pid_namespace)).output;
  };
  // Nothing beside it can be changed: not another's environment, nor what says that one is whole.
  CHECK(said("(echo x > ../environment.json) 2>/dev/null || echo refused") == "refused\n");
  const std::string seen =
      said("(echo changed > module.py) 2>/dev/null; cat module.py; echo y > new");
  CHECK(read_file(root / "module.py").value() == "as it was");
  CHECK_FALSE(fs::exists(root / "new"));
  if (seen != "changed\n") {
    MESSAGE("no layer can be made here: it is read-only");
    CHECK(seen == "as it was");
    return;
  }
  // The ranks begin with what their preparation has installed.
  shared.below = shared.layer;
  CHECK(said("cat module.py new; rm module.py; ls") == "changed\ny\nnew\n");
  CHECK(read_file(root / "module.py").value() == "as it was");
}
