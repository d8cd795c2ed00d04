#include "container/bubblewrap_rank.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/clock.h"
#include "base/process.h"
#include "container/bubblewrap.h"
#include "container/bubblewrap_test_root.h"

namespace trainyard::container {
namespace {

TEST_CASE("carry a rank" * doctest::skip()) {
  const fs::path file = std::getenv("TEST_CARRIED");
  if (std::getenv("TEST_NO_LAYER") != nullptr) {
    Carried carried = read_carried(file).value();
    carried.layer.clear();
    REQUIRE(write_carried(carried, file));
  }
  if (const char* below = std::getenv("TEST_BELOW"); below != nullptr) {
    Carried carried = read_carried(file).value();
    carried.below = below;
    REQUIRE(write_carried(carried, file));
  }
  _exit(bubblewrap_rank(file));
}

// Not 65534, which the kernel shows for all that it has no name for.
constexpr unsigned kNobody = 54321;

// As whom a container is run. Isolated is as the supervisor does it (runtime/init.cc).
// Forbidden is where the kernel refuses more namespaces.
enum class Who { we, nobody, isolated, forbidden };

std::vector<std::string> prefix(Who who) {
  const std::string id = std::to_string(kNobody);
  std::vector<std::string> words;
  if (who != Who::we) words = {"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"};
  if (who == Who::isolated) {
    words.insert(words.end(), {"unshare", "--user", "--map-user=" + id, "--map-group=" + id,
                               "--mount", "--pid", "--fork", "--mount-proc"});
  }
  if (who == Who::forbidden) {
    words.insert(words.end(), {"unshare", "--user", "--map-root-user", "sh", "-c",
                               "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv "
                               "--bounding-set=-all --inh-caps=-all \"$0\" \"$@\""});
  }
  return words;
}

// Others than us can be tried by root alone.
std::vector<Who> all() {
  return geteuid() == 0 ? std::vector{Who::we, Who::nobody, Who::isolated} : std::vector{Who::we};
}

bool can_run() {
  static const Result<Submitter> submitter = find_bubblewrap();
  if (!submitter) MESSAGE(submitter.error().message);
  static const Status works = submitter ? try_bubblewrap(submitter->bwrap) : Status();
  if (!works) MESSAGE(works.error().message);
  return submitter.has_value() && works.has_value();
}

// One container, its output in a pipe.
class Rank {
 public:
  explicit Rank(Plan plan, std::map<std::string, std::string> variables = {}, Who who = Who::we) {
    plan.root = root_.path();
    plan.variables.push_back("SAID");
    const fs::path file = root_.beside("rank-0");
    Submitter submitter = find_bubblewrap().value();
    if (who != Who::we) submitter = {.bwrap = submitter.bwrap, .uid = kNobody, .gid = kNobody};
    const Result<Carried> carried = plan_bubblewrap(plan, submitter, file);
    if (!carried) FAIL(carried.error().message);
    REQUIRE(write_carried(*carried, file));
    const std::string owner = fmt::format("{0}:{0}", submitter.uid);
    REQUIRE(output_of({"chown", "-R", owner, file.parent_path()}, seconds(10)));
    if (variables.contains("TEST_OTHERS_IMAGE")) {
      REQUIRE(output_of({"chgrp", "-R", "0", plan.root}, seconds(10)));
    }
    variables["TEST_CARRIED"] = file;
    variables["PATH"] = std::getenv("PATH");
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    out_ = Fd(ends[0]);
    const Fd theirs(ends[1]);
    std::vector<std::string> words{"/bin/sh", "-c", "exec setsid \"$0\" \"$@\""};
    for (const std::string& word : prefix(who)) words.push_back(word);
    for (const std::string& word : {self_path().value().string(), std::string("--no-skip"),
                                    std::string("-tc=carry a rank")}) {
      words.push_back(word);
    }
    pid_ = spawn_unwatched({.command = words,
                            .environment = variables,
                            .folder = "/",
                            .stdout_fd = theirs.get(),
                            .stderr_fd = theirs.get()})
               .value();
  }
  ~Rank() {
    if (pid_ > 0) kill(-pid_, SIGKILL);
  }
  // Until it has said this.
  void await(std::string_view text) {
    while (said_.find(text) == std::string::npos && read_some()) {
    }
    REQUIRE_MESSAGE(said_.find(text) != std::string::npos, said_);
  }
  std::string rest() {
    while (read_some()) {
    }
    return said_;
  }
  int status() {
    int status = 0;
    REQUIRE(waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return status;
  }
  pid_t pid() const { return pid_; }
  const TestRoot& root() const { return root_; }

 private:
  bool read_some() {
    char piece[4096];
    const ssize_t got = read(out_.get(), piece, sizeof piece);
    if (got > 0) said_.append(piece, static_cast<size_t>(got));
    return got > 0;
  }
  TestRoot root_;
  pid_t pid_ = 0;
  Fd out_;
  std::string said_;
};

Plan shell(const std::string& script) {
  Plan plan;
  plan.command = {"sh", "-c", script};
  return plan;
}

TEST_CASE("a container ends with its command's exit code") {
  if (!can_run()) return;
  for (const Who who : all()) {
    for (const int code : {0, 1, 42, 137}) {
      Rank rank(shell("exit " + std::to_string(code)), {}, who);
      CHECK(rank.rest() == "");
      const int status = rank.status();
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == code);
    }
  }
}

TEST_CASE("a container whose first process is killed by a signal ends by that signal") {
  if (!can_run()) return;
  for (const int number : {SIGKILL, SIGSEGV, SIGTERM}) {
    Rank rank(shell("echo up; sleep 0.2; kill -" + std::to_string(number) + " $$"));
    const int status = rank.status();
    CHECK_MESSAGE(WIFSIGNALED(status), rank.rest());
    CHECK(WTERMSIG(status) == number);
  }
}

TEST_CASE("SIGTERM reaches the container's first process, which may take its time") {
  if (!can_run()) return;
  Who who = Who::we;
  // To the rank's first process, and to its whole group: bwrap's own process is in it.
  for (const bool group : {false, true}) {
    Rank rank(shell("trap 'echo saving; sleep 0.1; echo saved; exit 7' TERM; echo up; "
                    "while :; do sleep 0.05; done"),
              {}, who);
    rank.await("up");
    REQUIRE(kill(group ? -rank.pid() : rank.pid(), SIGTERM) == 0);
    CHECK(rank.rest().ends_with("saving\nsaved\n"));
    const int status = rank.status();
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
  }
}

TEST_CASE("SIGTERM that comes before the container stands ends it") {
  if (!can_run()) return;
  Rank rank(shell("sleep 60"));
  REQUIRE(kill(rank.pid(), SIGTERM) == 0);
  CHECK(WIFSIGNALED(rank.status()));
}

TEST_CASE("what a container leaves running ends with it") {
  if (!can_run()) return;
  Rank rank(shell("(sleep 1000 &) ; sleep 1000 & echo up"));
  const auto begun = std::chrono::steady_clock::now();
  CHECK(rank.status() == 0);
  CHECK(rank.rest() == "up\n");  // The end of the pipe: nobody holds it any more.
  CHECK(std::chrono::steady_clock::now() - begun < seconds(30));
}

TEST_CASE("a container may change its root, and the image does not") {
  if (!can_run()) return;
  for (const Who who : all()) {
    Rank rank(shell("echo new >/opt/file; rm /etc/motd; cat /opt/file; ls /etc/motd 2>&1 | cat"),
              {}, who);
    CHECK(rank.rest() == "new\nls: cannot access '/etc/motd': No such file or directory\n");
    CHECK(rank.status() == 0);
    CHECK_FALSE(fs::exists(rank.root().path() + "/opt/file"));
    CHECK(fs::exists(rank.root().path() + "/etc/motd"));
    CHECK_FALSE(fs::exists(rank.root().beside("rank-0.layer")));
  }
}

TEST_CASE("what one container has changed is there for the next, where it is kept") {
  if (!can_run()) return;
  for (const Who who : all()) {
    Plan plan =
        shell("printf '#!/bin/sh\\necho hello' >/bin/added; chmod 755 /bin/added; rm /etc/motd");
    plan.name = "first";
    plan.kept = true;
    Rank first(plan, {}, who);
    CHECK(first.rest() == "");
    CHECK(first.status() == 0);
    const std::string layer = first.root().beside("container-first.layer");
    CHECK(fs::exists(layer + "/upper/bin/added"));
    plan = shell("added; ls /etc/motd 2>/dev/null || echo gone; echo more >/bin/more");
    for (int i = 0; i < 2; ++i) {
      Rank next(plan, {{"TEST_BELOW", layer}}, who);
      CHECK(next.rest() == "hello\ngone\n");
      CHECK(next.status() == 0);
    }
    // Neither an image nor what was kept is changed by it.
    CHECK_FALSE(fs::exists(layer + "/upper/bin/more"));
    plan.command = {"added"};
    Rank command(plan, {{"TEST_BELOW", layer}}, who);
    CHECK(command.rest() == "hello\n");
    Rank without(shell("ls /etc/motd"), {{"TEST_BELOW", layer + "/none"}}, who);
    CHECK(without.rest() == "/etc/motd\n");
  }
}

TEST_CASE("without a layer the root is read-only, and memory is where programs write") {
  if (!can_run()) return;
  for (const Who who : all()) {
    Plan plan = shell(
        "echo x >/tmp/file && echo x >/run/file && echo x >/new/file && "
        "(echo x >/bin/file) 2>/dev/null || cat /tmp/file /run/file /new/file");
    const TempDir shown;
    fs::permissions(shown.path(), fs::perms::all);
    plan.binds = {{shown.path(), "/new"}};
    Rank rank(plan, {{"TEST_NO_LAYER", "1"}}, who);
    CHECK(rank.rest() == "x\nx\nx\n");
    CHECK(rank.status() == 0);
  }
}

TEST_CASE("an image that belongs to another group is shown all the same, read-only") {
  if (!can_run() || geteuid() != 0) return;
  Plan plan = shell("echo x >/tmp/file; cat /tmp/file; (echo x >/bin/file) 2>/dev/null || echo no");
  for (const Who who : {Who::nobody, Who::isolated}) {
    Rank rank(plan, {{"TEST_OTHERS_IMAGE", "1"}}, who);
    CHECK(rank.rest() == "x\nno\n");
    CHECK(rank.status() == 0);
  }
}

TEST_CASE("the user inside is the one outside, by name, or root who is that user") {
  if (!can_run() || geteuid() != 0) return;
  const TempDir shown;
  fs::permissions(shown.path(), fs::perms::all);
  Plan plan = shell("id -u; id -un; echo x >/shown/file-$(id -u)");
  plan.binds = {{shown.path(), "/shown"}};
  Rank plain(plan, {}, Who::nobody);
  CHECK(plain.rest() == "54321\nuser54321\n");
  plan.arguments = {"--user", "root"};
  Rank root(plan, {}, Who::isolated);
  CHECK(root.rest() == "0\nroot\n");
  for (const char* name : {"file-0", "file-54321"}) {
    struct stat found{};
    REQUIRE(stat((shown.path() / name).c_str(), &found) == 0);
    CHECK(found.st_uid == kNobody);
  }
}

TEST_CASE("variables inside are the image's and those that are named, nothing of the machine") {
  if (!can_run()) return;
  Plan plan = shell("echo $SAID/$IMAGE/$BOTH/$SECRET/$PATH/$HOME");
  plan.config.variables = {"IMAGE=i", "BOTH=i", "PATH=/nowhere:/bin"};
  plan.variables = {"BOTH", "MISSING"};
  Rank rank(plan, {{"SAID", "s"}, {"BOTH", "b"}, {"SECRET", "machine"}, {"HOME", "/root"}});
  const std::string home = geteuid() == 0 ? "/opt" : "/tmp";
  CHECK(rank.rest() == "s/i/b///nowhere:/bin/" + home + "\n");
}

TEST_CASE("a container that cannot be made, or has no such program, says so by its exit code") {
  if (!can_run()) return;
  Plan plan;
  plan.command = {"pyhton"};
  Rank missing(plan);
  CHECK(missing.rest() == "trainyard: program 'pyhton' was not found in the container\n");
  CHECK(WEXITSTATUS(missing.status()) == 127);
  plan.command = {"/etc/passwd"};
  Rank text(plan);
  CHECK(text.rest() ==
        "trainyard: program '/etc/passwd' is in the container and cannot be executed: "
        "permission denied\n");
  CHECK(WEXITSTATUS(text.status()) == 126);
}

TEST_CASE("where the kernel refuses a container, the rank says what to allow") {
  if (!can_run() || geteuid() != 0) return;
  Plan plan = shell("echo never");
  const TempDir notes;
  fs::permissions(notes.path(), fs::perms::all);
  plan.note = notes.path() / "note";
  Rank rank(plan, {}, Who::forbidden);
  CHECK(WEXITSTATUS(rank.status()) == 125);
  const std::string said = rank.rest();
  CHECK_MESSAGE(said.find("Allow user namespaces there") != std::string::npos, said);
  CHECK(read_file(plan.note).value().starts_with(
      "not started: bubblewrap may not make a container on "));
}

}  // namespace
}  // namespace trainyard::container
