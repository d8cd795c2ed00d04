#include "base/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/text.h"

extern char** environ;

namespace trainyard {
namespace {

constexpr size_t kOutputMax = 1024 * 1024;
constexpr std::string_view kUsualPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

// Reads until the end of the file, the limit or the time.
Result<std::string> read_until(int fd, std::chrono::steady_clock::time_point until) {
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() < kOutputMax) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd waiting{fd, POLLIN, 0};
    const int n = ::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(ErrorKind::unavailable, "it did not end in time");
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read its output");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

bool statically_linked() {
  // Where the kernel has put the dynamic loader: nowhere.
  return ::getauxval(AT_BASE) == 0;
}

fs::path find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return name;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : kUsualPath, ':')) {
    fs::path file = fs::path(folder) / name;
    std::error_code none;
    if (folder.starts_with('/') && fs::is_regular_file(file, none) &&
        ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return {};
}

Result<pid_t> start_program(std::vector<std::string> command, int stdout_fd) {
  const std::string name = command.at(0);
  command[0] = find_program(name);
  if (command[0].empty()) return fail(ErrorKind::not_found, "there is no program " + name);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, stdout_fd, 1);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  // What we block and ignore is no business of its.
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&how, &signals);
  for (const int number : {SIGPIPE, SIGXFSZ}) sigaddset(&signals, number);
  posix_spawnattr_setsigdefault(&how, &signals);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0], &files, &how, words.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return fail_errno(error, "start " + command[0]);
  return pid;
}

Result<std::string> output_of(std::vector<std::string> command, milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const std::string name = command.at(0);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  TRY_SET(const pid_t pid, start_program(std::move(command), writing.get()));
  writing.reset();
  Result<std::string> text = read_until(reading.get(), until);
  int status = 0;
  // It has closed its output and may yet take its time to end.
  while (text && ::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      text = fail(ErrorKind::unavailable, "it did not end in time");
      break;
    }
    ::poll(nullptr, 0, 1);
  }
  if (!text) {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return std::unexpected(std::move(text).error().within(name));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(
        ErrorKind::unavailable,
        name + (WIFEXITED(status) ? " ended with exit code " + std::to_string(WEXITSTATUS(status))
                                  : " was killed by signal " + std::to_string(WTERMSIG(status))));
  }
  return text;
}

}  // namespace trainyard
