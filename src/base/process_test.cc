#include "base/process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard {
namespace {

struct Ran {
  std::string output;  // What it wrote to its stdout.
  int status = 0;      // As waitpid gives it.
  pid_t pid = 0;
};

// Runs `options` with stdout into a file and waits for its end.
Ran run(SpawnOptions options) {
  const TempDir dir;
  const auto out = open_file(dir.path() / "out", O_RDWR | O_CREAT);
  REQUIRE(out);
  options.stdout_fd = out->get();
  auto child = spawn(options);
  REQUIRE_MESSAGE(child, child.error().message);
  Ran ran{.pid = child->pid};
  CHECK(waitpid(child->pid, &ran.status, 0) == child->pid);
  ran.output = *read_at(out->get(), 0, 1 << 20, "out");
  return ran;
}

Ran run_shell(const std::string& script) { return run({.command = {"/bin/sh", "-c", script}}); }

TEST_CASE("a program gets its arguments and its exit code comes back") {
  const Ran ran =
      run({.command = {"/bin/sh", "-c", "printf '%s|' \"$@\"; exit 3", "sh", "a b", ""}});
  CHECK(ran.output == "a b||");
  CHECK(WIFEXITED(ran.status));
  CHECK(WEXITSTATUS(ran.status) == 3);
}

TEST_CASE("a program gets the environment it is given and no other") {
  setenv("TRAINYARD_TEST_VARIABLE", "ours", 1);
  CHECK(run_shell("echo $TRAINYARD_TEST_VARIABLE").output == "ours\n");
  const Ran ran = run({.command = {"/usr/bin/env"}, .environment = {{{"A", "x=y"}, {"B", ""}}}});
  CHECK(ran.output == "A=x=y\nB=\n");
  unsetenv("TRAINYARD_TEST_VARIABLE");
}

TEST_CASE("a program starts in the folder it is given") {
  const TempDir dir;
  const Ran ran = run({.command = {"/bin/pwd", "-P"}, .folder = dir.path()});
  CHECK(ran.output == fs::canonical(dir.path()).string() + "\n");
}

TEST_CASE("a program that cannot be started is an error here, not in the child") {
  const TempDir dir;
  const auto missing = spawn({.command = {"/no/such/program"}});
  REQUIRE(!missing);
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().message == "start /no/such/program: No such file or directory");
  REQUIRE(write_file(dir.path() / "text", "no program").has_value());
  CHECK(spawn({.command = {dir.path() / "text"}}).error().kind == ErrorKind::denied);
  CHECK(!spawn({.command = {"/bin/true"}, .folder = "/no/such/folder"}));
  CHECK(spawn({}).error().kind == ErrorKind::invalid);
  CHECK(waitpid(-1, nullptr, WNOHANG) < 0);  // No zombie is left of them.
}

TEST_CASE("stdin is empty unless it is given") {
  CHECK(run_shell("cat").output == "");
  const TempDir dir;
  REQUIRE(write_file(dir.path() / "in", "hello").has_value());
  const auto in = open_file(dir.path() / "in", O_RDONLY);
  REQUIRE(in);
  CHECK(run({.command = {"/bin/cat"}, .stdin_fd = in->get()}).output == "hello");
}

TEST_CASE("stdout and stderr may be one and the same") {
  const TempDir dir;
  const auto out = open_file(dir.path() / "out", O_RDWR | O_CREAT | O_APPEND);
  REQUIRE(out);
  const auto child = spawn({.command = {"/bin/sh", "-c", "echo one; echo two >&2"},
                            .stdout_fd = out->get(),
                            .stderr_fd = out->get()});
  REQUIRE(child);
  waitpid(child->pid, nullptr, 0);
  CHECK(read_file(dir.path() / "out") == "one\ntwo\n");
}

TEST_CASE("fds with standard numbers can change places") {
  const TempDir dir;
  const auto text = open_file(dir.path() / "text", O_RDWR | O_CREAT | O_APPEND);
  REQUIRE(text);
  const Fd stderr_before(dup(2));
  REQUIRE(dup2(text->get(), 2) == 2);
  // The child's stdout is our stderr, and the other way round.
  const auto child =
      spawn({.command = {"/bin/sh", "-c", "echo out"}, .stdout_fd = 2, .stderr_fd = 1});
  REQUIRE(dup2(stderr_before.get(), 2) == 2);
  REQUIRE(child);
  waitpid(child->pid, nullptr, 0);
  CHECK(read_file(dir.path() / "text") == "out\n");
}

TEST_CASE("only the fds named are inherited, under their numbers") {
  const Fd open_to_all(::open("/dev/null", O_RDONLY));  // NOLINT: without O_CLOEXEC on purpose.
  const Fd kept(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const std::string number = std::to_string(kept.get());
  const Ran listed = run({.command = {"/bin/ls", "/proc/self/fd"}, .kept_fds = {kept.get()}});
  // Three standard ones, ours, and that of the folder ls reads; a line break after each.
  CHECK(split(listed.output, '\n').size() == 5 + 1);
  const Ran link =
      run({.command = {"/bin/readlink", "/proc/self/fd/" + number}, .kept_fds = {kept.get()}});
  CHECK(link.output == "/dev/zero\n");
  // Ours are as they were.
  CHECK(fcntl(open_to_all.get(), F_GETFD) == 0);
  CHECK(fcntl(kept.get(), F_GETFD) == FD_CLOEXEC);
}

TEST_CASE("no signal is blocked or ignored in the child, and ours stay as they are") {
  const auto before = signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigset_t mask_before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &mask_before);
  const Ran ran = run_shell("grep -E 'SigBlk|SigIgn' /proc/$$/status | tr -d '\\n\\t'");
  CHECK(ran.output == "SigBlk:0000000000000000SigIgn:0000000000000000");
  CHECK((signal(SIGPIPE, before) == SIG_IGN));
  sigset_t mask_now;
  pthread_sigmask(SIG_SETMASK, &mask_before, &mask_now);
  CHECK(sigismember(&mask_now, SIGTERM) == 1);
  CHECK(sigismember(&mask_now, SIGHUP) == 0);
}

TEST_CASE("a new session is the child's own") {
  const std::string sid = "cut -d' ' -f6 /proc/$$/stat";
  const Ran daemon = run({.command = {"/bin/sh", "-c", sid}, .new_session = true});
  CHECK(daemon.output == std::to_string(daemon.pid) + "\n");
  CHECK(run_shell(sid).output == std::to_string(getsid(0)) + "\n");
}

TEST_CASE("a pidfd is readable once the child has ended, and not before") {
  const auto child = spawn({.command = {"/bin/sleep", "1000"}});
  REQUIRE(child);
  pollfd waiting{.fd = child->pidfd.get(), .events = POLLIN, .revents = 0};
  CHECK(poll(&waiting, 1, 0) == 0);
  kill(child->pid, SIGKILL);
  CHECK(poll(&waiting, 1, 30'000) == 1);
  int status = 0;
  waitpid(child->pid, &status, 0);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(open_pidfd(child->pid).error().kind == ErrorKind::not_found);
  CHECK(open_pidfd(getpid()).has_value());
}

TEST_CASE("we know our own binary, boot and host") {
  CHECK(self_path()->filename() == "base_test");
  CHECK(boot_id().size() == 36);
  CHECK(boot_id() == boot_id());
  CHECK(!host_name().empty());
}

}  // namespace
}  // namespace trainyard
