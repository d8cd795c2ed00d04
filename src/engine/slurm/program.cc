#include "engine/slurm/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/process.h"
#include "base/text.h"

namespace trainyard::engine::slurm {
namespace {

constexpr size_t kOutputMax = 256UL * 1024 * 1024;  // A million jobs.
constexpr size_t kErrorsMax = 64UL * 1024;
constexpr int kReadsAtOnce = 64;        // Then it is looked at the time: a program may never pause.
constexpr milliseconds kAskEvery{100};  // Whether it is still wanted.
constexpr seconds kProgramGoodbye{10};  // From SIGTERM to SIGKILL.

// One program under way: its three streams and its end.
class Talk {
 public:
  Talk(const ProgramOptions& options, Child child, Pipe in, Pipe out, Pipe err)
      : options_(options),
        child_(std::move(child)),
        in_(std::move(in.ours)),
        out_(std::move(out.ours)),
        err_(std::move(err.ours)) {}

  // It leads a session of its own, so that nothing of it survives.
  ~Talk() {
    if (child_.pid == 0) return;
    ::kill(-child_.pid, SIGKILL);
    ::kill(child_.pid, SIGKILL);
    waitpid(child_.pid, nullptr, 0);
  }

  Result<ProgramEnd> run() {
    MonotoneClock clock;
    SteadyTime until = clock.steady() + options_.timeout;
    bool told = false;  // To end.
    bool stopped = false;
    for (;;) {
      feed();
      if (!told && options_.wanted && (stopped || !options_.wanted())) {
        told = true;
        ::kill(child_.pid, SIGTERM);
        until = clock.steady() + kProgramGoodbye;
      }
      auto left = std::chrono::ceil<milliseconds>(until - clock.steady());
      if (left <= milliseconds(0)) {
        end_.timed_out = true;
        drain_rest();
        return std::move(end_);
      }
      if (options_.wanted) left = std::min(left, kAskEvery);
      const bool feeds = fed_ < options_.input.size();
      std::array<pollfd, 5> polled{{{child_.pidfd.get(), POLLIN, 0},
                                    {out_.get(), POLLIN, 0},
                                    {err_.get(), POLLIN, 0},
                                    {feeds ? in_.get() : -1, POLLOUT, 0},
                                    {told ? -1 : options_.stop_fd, POLLIN, 0}}};
      if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0 &&
          errno != EINTR) {
        return fail_errno(errno, "wait for " + options_.command.front());
      }
      stopped = stopped || polled[4].revents != 0;
      if (stopped && !options_.wanted) {
        return fail(ErrorKind::cancelled, options_.command.front() + ": no longer wanted");
      }
      drain();
      if (polled[0].revents != 0) return reaped();
    }
  }

 private:
  void feed() {
    while (in_ && fed_ < options_.input.size()) {
      const ssize_t sent =
          send(in_.get(), options_.input.data() + fed_, options_.input.size() - fed_, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      if (sent <= 0) break;
      fed_ += static_cast<size_t>(sent);
    }
    if (!options_.wanted && !options_.keeps_input) in_.reset();
  }

  void drain() {
    drain(out_, end_.output, kOutputMax);
    if (options_.print && !end_.output.empty()) options_.print(std::exchange(end_.output, {}));
    drain(err_, end_.errors, kErrorsMax);
  }
  // All that is there; not what others go on to write.
  void drain_rest() {
    for (size_t before = SIZE_MAX; before != taken_;) {
      before = taken_;
      if (taken_ < kOutputMax) drain();
    }
  }
  void drain(Fd& fd, std::string& into, size_t most) {
    std::array<char, 65536> buffer;  // NOLINT: read() fills it.
    for (int reads = 0; fd && reads < kReadsAtOnce; ++reads) {
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return fd.reset();
      taken_ += static_cast<size_t>(got);
      into.append(buffer.data(), std::min(static_cast<size_t>(got), most - into.size()));
    }
  }

  Result<ProgramEnd> reaped() {
    int status = 0;
    while (waitpid(child_.pid, &status, 0) < 0 && errno == EINTR) {
    }
    child_.pid = 0;
    drain_rest();
    end_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return std::move(end_);
  }

  const ProgramOptions& options_;
  Child child_;
  Fd in_;
  Fd out_;
  Fd err_;
  size_t fed_ = 0;
  size_t taken_ = 0;  // Bytes that were read.
  ProgramEnd end_;
};

}  // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno(errno, "make a pipe");
  }
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  if (fcntl(pipe.ours.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno(errno, "make a pipe");
  return pipe;
}

Result<ProgramEnd> run_program(const ProgramOptions& options) {
  TRY_SET(Pipe in, make_pipe());
  TRY_SET(Pipe out, make_pipe());
  TRY_SET(Pipe err, make_pipe());
  SpawnOptions spawned;
  spawned.command = options.command;
  spawned.environment = options.environment;
  spawned.folder = "/";
  spawned.stdin_fd = in.theirs.get();
  spawned.stdout_fd = out.theirs.get();
  spawned.stderr_fd = err.theirs.get();
  spawned.new_session = true;
  TRY_SET(Child child, spawn(spawned));
  for (Pipe* pipe : {&in, &out, &err}) pipe->theirs.reset();
  return Talk(options, std::move(child), std::move(in), std::move(out), std::move(err)).run();
}

Result<std::string> find_program(std::string_view name, std::string_view path) {
  for (const std::string& folder : split(path, ':')) {
    if (!folder.starts_with('/')) continue;
    const std::string candidate = folder + "/" + std::string(name);
    if (access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
  }
  return fail(ErrorKind::not_found,
              std::string(name) + ": no such program in " + std::string(path));
}

}  // namespace trainyard::engine::slurm
