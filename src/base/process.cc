#include "base/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <span>

#include "base/file_limit.h"
#include "base/text.h"

extern char** environ;

namespace trainyard {
namespace {

constexpr int kFirstFreeFd = 3;  // Past the three standard ones.

// All the child needs, made before it is: between vfork and exec it shares our memory and may only
// make system calls.
struct Plan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const char* folder = nullptr;
  std::array<int, 3> standard{};  // What becomes fd 0, 1, 2.
  std::span<const int> kept;
  bool new_session = false;
  int error_pipe = -1;
};

char* as_c(const std::string& text) { return const_cast<char*>(text.c_str()); }

[[noreturn]] void report_and_exit(const Plan& plan) {
  const int number = errno;
  static_cast<void>(::write(plan.error_pipe, &number, sizeof number) == 0);
  _exit(127);
}

bool place_standard_fds(const std::array<int, 3>& wanted) {
  std::array<int, 3> source = wanted;
  // One that already has a standard number could be overwritten by another before it is moved.
  for (int& fd : source) {
    if (fd < kFirstFreeFd) fd = fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
    if (fd < 0) return false;
  }
  for (int i = 0; i < 3; ++i) {
    if (dup2(source[static_cast<size_t>(i)], i) < 0) return false;
  }
  return true;
}

[[noreturn]] void become(const Plan& plan) {
  if (plan.new_session && setsid() < 0) report_and_exit(plan);
  if (plan.folder != nullptr && chdir(plan.folder) != 0) report_and_exit(plan);
  if (!place_standard_fds(plan.standard)) report_and_exit(plan);
  // The table of fds is the child's own: marking all of them leaves ours as they are. A kernel
  // before 5.11 does not know it; there those of ours close on exec as they were opened.
  if (syscall(SYS_close_range, kFirstFreeFd, UINT_MAX, CLOSE_RANGE_CLOEXEC) != 0 &&
      errno != ENOSYS && errno != EINVAL) {
    report_and_exit(plan);
  }
  for (const int fd : plan.kept) {
    if (fcntl(fd, F_SETFD, 0) != 0) report_and_exit(plan);
  }
  reset_signals();
  give_back_file_limit();  // Last: what came before may have needed numbers above it.
  execve(plan.arguments.front(), plan.arguments.data(), plan.environment.data());
  report_and_exit(plan);
}

// Signals stay blocked from before the fork until the child has dropped our handlers.
pid_t fork_into(const Plan& plan) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // A plain fork copies the page tables: milliseconds for a large server.
  const pid_t pid = vfork();  // NOLINT(bugprone-unsafe-functions): see become().
  if (pid == 0) become(plan);
  const int number = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = number;
  return pid;
}

struct Pipe {
  Fd read_end;
  Fd write_end;
};

// Above the standard numbers even in a process that closed its own.
Result<Pipe> make_error_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  for (Fd* end : {&pipe.read_end, &pipe.write_end}) {
    if (end->get() >= kFirstFreeFd) continue;
    Fd moved(fcntl(end->get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
    if (!moved) return fail_errno(errno, "make a pipe");
    *end = std::move(moved);
  }
  return pipe;
}

// The errno with which the child could not become the program, or 0 when it did.
int read_error(int fd) {
  int number = 0;
  for (;;) {
    const ssize_t got = ::read(fd, &number, sizeof number);
    if (got < 0 && errno == EINTR) continue;
    return got == sizeof number ? number : 0;
  }
}

std::string describe(const SpawnOptions& options) { return "start " + options.command.front(); }

}  // namespace

void reset_signals() {
  // The kernel's own call: glibc keeps 32 and 33 for itself and refuses to touch them, but whoever
  // started us may have ignored them, and that is inherited too.
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
  } const standard{};
  for (int number = 1; number < NSIG; ++number) {
    syscall(SYS_rt_sigaction, number, &standard, nullptr, sizeof standard.mask);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

Result<Child> spawn(const SpawnOptions& options) {
  TRY_SET(const pid_t pid, spawn_unwatched(options));
  TRY_SET(Fd pidfd, open_pidfd(pid));
  return Child{pid, std::move(pidfd)};
}

Result<pid_t> spawn_unwatched(const SpawnOptions& options) {
  if (options.command.empty()) return fail(ErrorKind::invalid, "start: no command");
  Plan plan{.folder = options.folder.empty() ? nullptr : options.folder.c_str(),
            .standard = {options.stdin_fd, options.stdout_fd, options.stderr_fd},
            .kept = options.kept_fds,
            .new_session = options.new_session};
  for (const std::string& word : options.command) plan.arguments.push_back(as_c(word));
  plan.arguments.push_back(nullptr);

  std::vector<std::string> pairs;
  if (options.environment) {
    pairs.reserve(options.environment->size());
    for (const auto& [name, value] : *options.environment) pairs.push_back(name + "=" + value);
    for (const std::string& pair : pairs) plan.environment.push_back(as_c(pair));
  } else {
    for (char** pair = environ; *pair != nullptr; ++pair) plan.environment.push_back(*pair);
  }
  plan.environment.push_back(nullptr);

  TRY_SET(const Fd null, open_file("/dev/null", O_RDWR));
  for (int& fd : plan.standard) {
    if (fd < 0) fd = null.get();
  }
  TRY_SET(Pipe pipe, make_error_pipe());
  plan.error_pipe = pipe.write_end.get();

  const pid_t pid = fork_into(plan);
  if (pid < 0) return fail_errno(errno, describe(options));
  pipe.write_end.reset();
  if (const int number = read_error(pipe.read_end.get()); number != 0) {
    waitpid(pid, nullptr, 0);
    return fail_errno(number, describe(options));
  }
  return pid;
}

Result<Fd> open_pidfd(pid_t pid) {
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd >= 0) return Fd(fd);
  const std::string doing = "watch process " + std::to_string(pid);
  if (errno == ESRCH) return fail(ErrorKind::not_found, doing + ": no such process");
  return fail_errno(errno, doing);
}

Result<fs::path> self_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail_errno(error.value(), "read /proc/self/exe");
  // The kernel's mark on a binary that was replaced by an upgrade; the new one is at the old path.
  constexpr std::string_view kDeleted = " (deleted)";
  std::string text = path.string();
  if (text.ends_with(kDeleted)) text.resize(text.size() - kDeleted.size());
  return fs::path(text);
}

std::string boot_id() {
  return std::string(trim(read_file("/proc/sys/kernel/random/boot_id").value_or("unknown")));
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace trainyard
