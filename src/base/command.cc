#include "base/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"

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
  return spawn_unwatched({.command = std::move(command), .stdout_fd = stdout_fd});
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
