#include "base/file_limit.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/command.h"
#include "base/process.h"

namespace trainyard {
namespace {

// In a child: the limit is the process's, and other tests have their own.
template <class Body>
void in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

bool set_soft(rlim_t soft) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = soft;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST_CASE("the soft limit of open files is raised to the hard one, and what it was is known") {
  in_child([] {
    if (!set_soft(123)) return 1;
    const FileLimit first = raise_file_limit();
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    if (now.rlim_cur != now.rlim_max || first.now.rlim_cur != now.rlim_max) return 2;
    const FileLimit second = raise_file_limit();  // By another part of us: the same.
    return first.given.rlim_cur == 123 && second.given.rlim_cur == 123 ? 0 : 3;
  });
}

TEST_CASE("what is started gets back the limit of open files that we were given") {
  in_child([] {
    if (!set_soft(123)) return 1;
    raise_file_limit();
    if (output_of({"sh", "-c", "ulimit -n"}, seconds(20)).value_or("") != "123\n") return 2;
    // With descriptors above the limit.
    const TempDir dir;
    const Fd file = open_file(dir.path() / "out", O_RDWR | O_CREAT).value();
    const Fd high(fcntl(file.get(), F_DUPFD_CLOEXEC, 300));
    if (!high) return 3;
    const auto child =
        spawn({.command = {"/bin/sh", "-c", "ulimit -n; echo kept >> /proc/self/fd/300"},
               .stdout_fd = file.get(),
               .kept_fds = {high.get()}});
    if (!child || waitpid(child->pid, nullptr, 0) != child->pid) return 4;
    return read_file(dir.path() / "out").value_or("") == "123\nkept\n" ? 0 : 5;
  });
}

TEST_CASE("without raising it, it is passed on as it is") {
  in_child([] {
    if (!set_soft(77)) return 1;
    return output_of({"sh", "-c", "ulimit -n"}, seconds(20)).value_or("") == "77\n" ? 0 : 2;
  });
}

}  // namespace
}  // namespace trainyard
