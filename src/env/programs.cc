#include "env/programs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/process.h"
#include "base/text.h"

namespace trainyard::env {
namespace {

constexpr std::string_view kUsualPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
constexpr size_t kLineMax = 64 * 1024;      // What is longer is broken there.
constexpr size_t kOutputMax = 1024 * 1024;  // Of output_of().
constexpr int kStopLookMs = 50;             // How soon a stop is seen.
constexpr auto kTick = milliseconds(250);
constexpr auto kDyingMax = milliseconds(5'000);  // For what was killed.

// A started program and the end of the pipe that both its outputs write to.
struct Started {
  pid_t pid = 0;
  Fd output;
};

enum class Errors { with_output, dropped };

Result<Started> start(const Program& program, Errors errors) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  Fd reading(ends[0]);
  const Fd writing(ends[1]);
  std::vector<std::string> words = program.wrapper;
  words.insert(words.end(), program.command.begin(), program.command.end());
  TRY_SET(const pid_t pid,
          spawn_unwatched({.command = std::move(words),
                           .environment = program.variables,
                           .folder = program.folder,
                           .stdout_fd = writing.get(),
                           .stderr_fd = errors == Errors::with_output ? writing.get() : -1,
                           .new_session = true}));
  return Started{pid, std::move(reading)};
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Cuts bytes into lines. A carriage return ends one too: a bar that is drawn again and again.
class Lines {
 public:
  explicit Lines(const OnLine& on_line) : on_line_(on_line) {}

  void add(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n' || c == '\r' || line_.size() >= kLineMax) flush();
      if (c != '\n' && c != '\r') line_ += c;
    }
  }

  void flush() {
    if (!line_.empty()) on_line_(to_utf8(line_));
    line_.clear();
  }

 private:
  const OnLine& on_line_;
  std::string line_;
};

enum class Got { bytes, end, nothing };

// Waits no longer than `wait_ms` for more.
Got read_some(const Fd& fd, int wait_ms, std::string& bytes) {
  pollfd waiting{fd.get(), POLLIN, 0};
  const int n = ::poll(&waiting, 1, wait_ms);
  if (n <= 0) return Got::nothing;
  std::array<char, 16 * 1024> piece{};
  const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN ? Got::nothing : Got::end;
  if (got == 0) return Got::end;
  bytes.assign(piece.data(), static_cast<size_t>(got));
  return Got::bytes;
}

// The session's group: whatever it has started and not sent elsewhere. Its pipe ends with the last
// of them: after that nobody writes where the caller will clear up.
void kill_all(const Started& started) {
  ::kill(-started.pid, SIGKILL);
  wait_for(started.pid);
  const auto until = std::chrono::steady_clock::now() + kDyingMax;
  std::string bytes;
  while (std::chrono::steady_clock::now() < until) {
    if (read_some(started.output, kStopLookMs, bytes) == Got::end) return;
  }
}

// "https://user:password@index.example/simple" -> "https://****@index.example/simple"
std::string without_password(std::string word) {
  const size_t scheme = word.find("://");
  if (scheme == std::string::npos) return word;
  const size_t host = scheme + 3;
  const size_t at = word.rfind('@', word.find_first_of("/?#", host));
  if (at != std::string::npos && at > host) word.replace(host, at - host, "****");
  return word;
}

}  // namespace

std::string variable(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

fs::path find_program(std::string_view name, const Variables& variables) {
  const auto path = variables.find("PATH");
  for (const std::string& folder :
       split(path == variables.end() ? kUsualPath : std::string_view(path->second), ':')) {
    fs::path file = fs::path(folder) / name;
    std::error_code none;
    if (folder.starts_with('/') && fs::is_regular_file(file, none) &&
        ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return {};
}

Result<Ended> run_program(const Program& program, const Watcher& watcher, const OnLine& on_line,
                          const OnTick& on_tick) {
  TRY_SET(const Started started, start(program, Errors::with_output));
  Lines lines(on_line);
  std::string bytes;
  auto next_tick = std::chrono::steady_clock::now();
  for (Got got = Got::nothing; got != Got::end;) {
    if (watcher.stopped()) {
      kill_all(started);
      return fail(ErrorKind::cancelled, "the build was stopped");
    }
    got = read_some(started.output, kStopLookMs, bytes);
    if (got == Got::bytes) lines.add(bytes);
    if (on_tick && std::chrono::steady_clock::now() >= next_tick) {
      on_tick();
      next_tick = std::chrono::steady_clock::now() + kTick;
    }
  }
  lines.flush();
  return Ended{wait_for(started.pid)};
}

Result<std::string> output_of(const Program& program, milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  const std::string name = fs::path(program.command.front()).filename();
  TRY_SET(const Started started, start(program, Errors::dropped));
  std::string text;
  std::string bytes;
  for (Got got = Got::nothing; got != Got::end && text.size() < kOutputMax;) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      kill_all(started);
      return fail(ErrorKind::unavailable, name + ": it did not end in time");
    }
    got = read_some(started.output, static_cast<int>(left.count()), bytes);
    if (got == Got::bytes) text += bytes;
  }
  if (text.size() >= kOutputMax) ::kill(-started.pid, SIGKILL);
  const int code = wait_for(started.pid);
  if (code == 0) return text;
  return fail(ErrorKind::unavailable, name + " ended with exit code " + std::to_string(code));
}

std::string shown(const std::vector<std::string>& command) {
  std::string text = fs::path(command.front()).filename();
  for (size_t i = 1; i < command.size(); ++i) text += " " + without_password(command[i]);
  return text;
}

}  // namespace trainyard::env
