#include "runtime/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/process.h"
#include "base/text.h"

namespace trainyard::runtime {
namespace {

constexpr std::string_view kPathDefault = "/usr/local/bin:/usr/bin:/bin";

// What the child tells by the memory it shares with its parent until exec.
struct Failure {
  volatile StartStep step;
  volatile int number;
};

[[noreturn]] void give_up(Failure& failure, StartStep step, int number) {
  failure.step = step;
  failure.number = number;
  _exit(127);
}

// The streams may be any numbers, 0 to 2 among them: first out of the way, then into place.
void place_streams(const Program::Streams& streams) {
  const int wanted[3] = {streams.in, streams.out, streams.err};
  int moved[3];
  for (int i = 0; i < 3; ++i) moved[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, 3);
  for (int i = 0; i < 3; ++i) dup2(moved[i], i);
  close_range(3, ~0U, 0);  // A kernel before 5.9 does not know it; there ours close on exec.
}

// As execvp(3), except that a file which is there and cannot be executed is the better answer than
// one not found, and that no shell is tried.
[[noreturn]] void try_all(const std::vector<std::string>& candidates, char* const* argv,
                          char* const* envp, Failure& failure) {
  StartStep step = StartStep::exec;
  int number = ENOENT;
  for (const std::string& candidate : candidates) {
    execve(candidate.c_str(), argv, envp);
    const int error = errno;
    if (access(candidate.c_str(), F_OK) != 0) continue;
    if (number == ENOENT) {
      step = error == ENOENT ? StartStep::interpreter : StartStep::exec;
      number = error == ENOENT ? ENOEXEC : error;
    }
    if (error != EACCES && error != ENOENT) break;
  }
  give_up(failure, step, number);
}

}  // namespace

Program::Program(const std::vector<std::string>& command,
                 const std::map<std::string, std::string>& environment, fs::path folder)
    : command_(command), folder_(std::move(folder)) {
  for (const auto& [name, value] : environment) environment_.push_back(name + "=" + value);
  const auto path = environment.find("PATH");
  candidates_ = program_candidates(command_.empty() ? "" : command_.front(),
                                   path == environment.end() ? kPathDefault : path->second);
  for (std::string& word : command_) argv_.push_back(word.data());
  for (std::string& variable : environment_) envp_.push_back(variable.data());
  argv_.push_back(nullptr);
  envp_.push_back(nullptr);
}

Program::Started Program::start(const Streams& streams, const rlimit& files,
                                OnParentDeath on_death) const {
  Failure memory{StartStep::none, 0};
  // Through a pointer whose value the compiler may not know: it would otherwise give the child's
  // side of the branch a copy of its own, since that side never returns.
  Failure* const volatile hidden = &memory;
  Failure& failure = *hidden;
  // vfork: the parent waits until exec, so no page is copied and the errno comes back by itself;
  // posix_spawn could not say which step failed.
  const pid_t pid = vfork();  // NOLINT(bugprone-unsafe-functions)
  if (pid == 0) {
    setsid();
    if (on_death == OnParentDeath::die) prctl(PR_SET_PDEATHSIG, SIGKILL);
    place_streams(streams);
    setrlimit(RLIMIT_NOFILE, &files);
    reset_signals();
    if (chdir(folder_.c_str()) != 0) give_up(failure, StartStep::folder, errno);
    try_all(candidates_, argv_.data(), envp_.data(), failure);
  }
  if (pid < 0) return {0, {StartStep::exec, errno}};
  if (failure.step != StartStep::none) {
    waitpid(pid, nullptr, 0);
    return {0, {failure.step, failure.number}};
  }
  return {pid, {}};
}

std::vector<std::string> program_candidates(std::string_view name, std::string_view path) {
  if (name.empty()) return {};
  if (name.find('/') != std::string_view::npos) return {std::string(name)};
  std::vector<std::string> candidates;
  for (const std::string& folder : split(path, ':')) {
    // POSIX: an empty entry is the current folder.
    candidates.push_back((folder.empty() ? "." : folder) + "/" + std::string(name));
  }
  return candidates;
}

int exit_code_of(const StartFailure& failure) {
  return failure.step == StartStep::exec && failure.number == ENOENT ? 127 : 126;
}

std::string explain(const StartFailure& failure, std::string_view program) {
  const std::string name = "program '" + std::string(program) + "'";
  if (failure.step == StartStep::folder) {
    return errno_error(failure.number, "the run's folder cannot be entered").message;
  }
  if (failure.step == StartStep::interpreter) {
    return name + " cannot be executed: the interpreter it names was not found";
  }
  const bool by_path = program.find('/') == std::string_view::npos;
  switch (failure.number) {
    case ENOENT:
      return name + (by_path ? " was not found in PATH" : " was not found");
    case EACCES:
      return name + " cannot be executed: permission denied";
    case ENOEXEC:
      return name + " cannot be executed: it is neither a program nor a script that begins with #!";
    case E2BIG:
      return name + " cannot be executed: its arguments and variables are too long";
    default:
      return errno_error(failure.number, name + " cannot be executed").message;
  }
}

}  // namespace trainyard::runtime
