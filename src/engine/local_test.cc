#include "engine/local.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/process.h"
#include "engine/local_folder.h"
#include "engine/local_machine.h"

using namespace trainyard;
using namespace trainyard::engine;

namespace {

const AttemptId kAttempt{RunId{"brisk-otter-test"}, 1};

// A home with an engine whose supervisors are a script: its arguments are "supervise --folder F".
// `hold` writes its pid to F/pid and waits with the lock held, as a supervisor does.
constexpr const char* kHold =
    "exec python3 -c 'import fcntl, os, signal, sys\n"
    "lock = open(\"lock\", \"a+\")\n"
    "try: fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    "except OSError: open(\"busy\", \"w\"); sys.exit(75)\n"
    "os.write(lock.fileno(), b\"mark-local-test\\n\" if lock.tell() == 0 else b\"\")\n"
    "open(\"pid.new\", \"w\").write(str(os.getpid()))\n"
    "os.rename(\"pid.new\", \"pid\")\n"
    "signal.pause()'";

struct Yard {
  TempDir dir;
  Home home{dir.path() / "home"};
  MonotoneClock clock;
  NullLog log;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> gone;
  std::unique_ptr<Engine> engine;

  explicit Yard(const std::string& script) {
    write_script(script);
    make();
  }
  ~Yard() {
    if (!engine) return;
    write_script("exit 0");  // Whoever takes over.
    static_cast<void>(engine->kill(kAttempt).has_value());
  }
  void write_script(const std::string& script) {
    REQUIRE(write_file(dir.path() / "supervisor", "#!/bin/sh\n" + script + "\n", 0755));
  }
  void make() {
    REQUIRE(make_dirs(home.root()));
    engine = make_local({home, clock, log, dir.path() / "supervisor"}).value();
    engine->on_gone([this](const AttemptId&, const Engine::Going& going) {
      const std::string& why = going.why;
      std::lock_guard lock(mutex);
      gone.push_back(why);
      changed.notify_all();
    });
  }
  fs::path folder() const { return home.attempt(kAttempt); }
  Status place() {
    Assignment assignment;
    assignment.run = kAttempt.run.value;
    assignment.token = "tya_secret";
    return engine->place(assignment);
  }
  std::string wait_gone() {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return !gone.empty(); }));
    return gone.front();
  }
  bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      poll(nullptr, 0, 1);
    }
    return false;
  }
  pid_t supervisor() {
    REQUIRE(eventually([&] { return fs::exists(folder() / "pid"); }));
    const pid_t pid = std::stoi(read_file(folder() / "pid").value());
    fs::remove(folder() / "pid");
    return pid;
  }
};

}  // namespace

TEST_CASE("an attempt is placed with its assignment, readable by nobody else") {
  Yard yard("echo \"$@\" > arguments; exit 0");
  REQUIRE(yard.place());
  CHECK(yard.engine->inspect(kAttempt) != Placement::unknown);
  CHECK(yard.wait_gone() == "exited with code 0");
  CHECK(yard.engine->inspect(kAttempt) == Placement::gone);
  struct stat status{};
  REQUIRE(stat((yard.folder() / "assignment.json").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(read_file(yard.folder() / "assignment.json").value().find("tya_secret") !=
        std::string::npos);
  CHECK(read_file(yard.folder() / "arguments").value() ==
        "supervise --folder " + yard.folder().string() + "\n");
  REQUIRE(yard.engine->release(kAttempt));
  CHECK_FALSE(fs::exists(yard.folder()));
  CHECK(yard.engine->inspect(kAttempt) == Placement::unknown);
}

TEST_CASE("no zombie stays") {
  Yard yard("exit 0");
  REQUIRE(yard.place());
  yard.wait_gone();
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a dead supervisor is taken over three times, then it is gone") {
  Yard yard("echo x >> starts; kill -9 $$");
  REQUIRE(yard.place());
  CHECK(yard.wait_gone() == "was killed by signal 9 (SIGKILL)");
  CHECK(read_file(yard.folder() / "starts").value() == "x\nx\nx\nx\n");
  CHECK(yard.engine->inspect(kAttempt) == Placement::gone);
}

TEST_CASE("one that takes over and ends well is the last") {
  Yard yard("echo x >> starts; [ $(wc -l < starts) = 2 ] && exit 0; exit 1");
  REQUIRE(yard.place());
  CHECK(yard.wait_gone() == "exited with code 0");
  CHECK(read_file(yard.folder() / "starts").value() == "x\nx\n");
}

TEST_CASE("placing twice starts one supervisor") {
  Yard yard(std::string("echo x >> starts;") + kHold);
  REQUIRE(yard.place());
  REQUIRE(yard.place());
  yard.supervisor();
  CHECK(yard.engine->inspect(kAttempt) == Placement::live);
  CHECK(read_file(yard.folder() / "starts").value() == "x\n");
}

TEST_CASE("a supervisor outlives the server, and the next server watches it") {
  Yard yard(kHold);
  REQUIRE(yard.place());
  const pid_t pid = yard.supervisor();
  yard.engine.reset();
  CHECK(kill(pid, 0) == 0);
  yard.make();
  CHECK(yard.engine->inspect(kAttempt) == Placement::unknown);
  REQUIRE(yard.engine->recover(kAttempt));
  CHECK(yard.engine->inspect(kAttempt) == Placement::live);
  // It dies: another takes over, and that one is ours.
  yard.write_script("exit 0");
  kill(pid, SIGKILL);
  CHECK(yard.wait_gone() == "exited with code 0");
  waitpid(pid, nullptr, 0);
}

TEST_CASE("after a restart: one that died meanwhile is taken over, one that is done is gone") {
  Yard yard("exit 0");
  REQUIRE(make_dirs(yard.folder()));
  REQUIRE(write_file(yard.folder() / "assignment.json", "{}"));
  SUBCASE("died") {
    REQUIRE(write_file(yard.folder() / "lock", "mark-x\n"));
    REQUIRE(yard.engine->recover(kAttempt));
    CHECK(yard.wait_gone() == "exited with code 0");
  }
  SUBCASE("done") {
    REQUIRE(write_file(yard.folder() / "lock", "mark-x\ndone\n"));
    REQUIRE(yard.engine->recover(kAttempt));
    CHECK(yard.engine->inspect(kAttempt) == Placement::gone);
  }
  SUBCASE("its folder is not there") {
    fs::remove_all(yard.folder());
    CHECK(yard.engine->recover(kAttempt).error().kind == ErrorKind::not_found);
    CHECK(yard.engine->inspect(kAttempt) == Placement::unknown);
  }
}

TEST_CASE("a supervisor that finds another at work makes us watch that one") {
  Yard yard(kHold);
  // One of an earlier server, which took the lock just after we looked.
  SpawnOptions other;
  other.command = {"/bin/sh", "-c", kHold};
  REQUIRE(make_dirs(yard.folder()));
  other.folder = yard.folder();
  const Child first = spawn(other).value();
  yard.supervisor();
  REQUIRE(yard.place());
  // Ours says busy and ends; the other one is then watched by its lock.
  REQUIRE(yard.eventually([&] { return fs::exists(yard.folder() / "busy"); }));
  yard.write_script("exit 0");
  CHECK(yard.engine->inspect(kAttempt) == Placement::live);
  kill(first.pid, SIGKILL);
  waitpid(first.pid, nullptr, 0);
  CHECK(yard.wait_gone() == "exited with code 0");
}

TEST_CASE("kill ends a supervisor, and release waits for it to be gone") {
  Yard yard(kHold);
  REQUIRE(yard.place());
  const pid_t pid = yard.supervisor();
  yard.write_script("exit 0");
  REQUIRE(yard.engine->release(kAttempt));
  CHECK(fs::exists(yard.folder()));  // It is still at work there.
  CHECK(yard.engine->inspect(kAttempt) == Placement::live);
  REQUIRE(yard.engine->kill(kAttempt));
  CHECK(kill(pid, 0) == -1);
  CHECK(yard.eventually([&] { return !fs::exists(yard.folder()); }));
  CHECK(yard.engine->inspect(kAttempt) == Placement::unknown);
}

TEST_CASE("what a supervisor left, when none can take over, is killed by its mark") {
  Yard yard(
      "echo mark-left > lock;"
      "(TRAINYARD_ATTEMPT_MARK=mark-left setsid sleep 1000 & echo $! >> left);"
      "exit 1");
  REQUIRE(yard.place());
  yard.wait_gone();
  std::string pids = read_file(yard.folder() / "left").value();
  CHECK(std::count(pids.begin(), pids.end(), '\n') == 4);
  CHECK(yard.eventually([&] {
    const std::string text =
        read_file("/proc/" + pids.substr(0, pids.find('\n')) + "/stat").value_or("");
    return text.empty() || text.find(") Z") != std::string::npos;
  }));
}

TEST_CASE("a program that cannot be started is said at once") {
  Yard yard("exit 0");
  fs::remove(yard.dir.path() / "supervisor");
  CHECK_FALSE(yard.place());
  CHECK(yard.engine->inspect(kAttempt) == Placement::unknown);
}

TEST_CASE("this machine has CPUs and memory") {
  const Capacity capacity = machine_capacity();
  CHECK(capacity.cpus > 0);
  CHECK(capacity.memory_bytes > 64 << 20);
  CHECK(memory_total("MemFree: 1 kB\nMemTotal:       2048 kB\n") == 2048 * 1024);
  CHECK(memory_total("") == 0);
  CHECK(memory_limit("max\n") == -1);
  CHECK(memory_limit("1048576\n") == 1048576);
  CHECK(cgroup_path("0::/user.slice/x\n", "") == "/user.slice/x");
  CHECK(cgroup_path("4:cpu,memory:/a\n0::/b\n", "memory") == "/a");
  CHECK(cgroup_path("0::/b\n", "memory").empty());
}

TEST_CASE("a lock file that is half written says nothing yet") {
  CHECK(parse_lock("").mark.empty());
  CHECK(parse_lock("mar").mark.empty());
  CHECK(parse_lock("mark\n").mark == "mark");
  CHECK_FALSE(parse_lock("mark\n").done);
  CHECK_FALSE(parse_lock("mark\ndo").done);
  CHECK(parse_lock("mark\ndone\n").done);
}
