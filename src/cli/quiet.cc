#include "cli/quiet.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/fd.h"

namespace trainyard::cli {
namespace {

// The terminal shows nothing of what is typed, for as long as one of these lives. Signals that
// would end us wait meanwhile: who dies at the prompt leaves a shell that does not echo.
class QuietTerminal {
 public:
  static Result<std::unique_ptr<QuietTerminal>> open() {
    termios before{};
    if (tcgetattr(STDIN_FILENO, &before) != 0) return fail_errno(errno, "read the terminal");
    return std::unique_ptr<QuietTerminal>(new QuietTerminal(before));
  }
  ~QuietTerminal() {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    pthread_sigmask(SIG_SETMASK, &unblocked_, nullptr);
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

  // Up to the line's end; `cancelled` by Ctrl-C and its like.
  Result<std::string> line() const {
    std::string text;
    for (;;) {
      pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR) return fail_errno(errno, "wait for the value");
      if (fds[1].revents != 0) {
        signalfd_siginfo taken{};  // Left pending, it would end us before we have said so.
        static_cast<void>(read(signals_.get(), &taken, sizeof taken));
        return fail(ErrorKind::cancelled, "interrupted; nothing was done");
      }
      if (fds[0].revents == 0) continue;
      char c = 0;
      const ssize_t got = read(STDIN_FILENO, &c, 1);
      if (got < 0 && errno != EINTR) return fail_errno(errno, "read the value");
      if (got == 0 || (got == 1 && c == '\n')) return text;
      if (got == 1) text += c;
    }
  }

 private:
  explicit QuietTerminal(const termios& before) : before_(before) {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, &unblocked_);
    signals_ = Fd(signalfd(-1, &ends, SFD_CLOEXEC));
    termios quiet = before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
  }

  termios before_;
  sigset_t unblocked_{};
  Fd signals_;
};

}  // namespace

Result<std::string> ask_quietly(const std::string& prompt) {
  TRY_SET(const auto terminal, QuietTerminal::open());
  static_cast<void>(write(STDERR_FILENO, prompt.data(), prompt.size()));
  auto line = terminal->line();
  static_cast<void>(write(STDERR_FILENO, "\n", 1));
  return line;
}

}  // namespace trainyard::cli
