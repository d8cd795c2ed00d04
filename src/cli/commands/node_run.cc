#include <unistd.h>

#include <cstdlib>

#include "agent/agent.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kNodeRunRows[] = {
    {"--place", Takes::value, "KEY", "Which of this home's places, for what started it."},
    {"--ready-fd", Takes::value, "FD", "Where to say that it works, for what started it."},
    {"--token-fd", Takes::value, "FD", "Where its token is to be read, for what started it."},
    {"--idle", Takes::value, "SECONDS", "End after so long without work; else never."},
};

// The whole of a pipe: a token is short.
Result<std::string> read_token_from(int fd) {
  const Fd pipe(fd);
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t got = ::read(pipe.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read the token");
    if (got == 0) return std::string(trim(text));
    text.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

constinit const std::span<const Option> kNodeRunOptions = kNodeRunRows;

Result<int> node_run(Context& context) {
  const Args& args = context.args();
  TRY_SET(const Home home, find_home(args.value("home")));
  agent::RunOptions options;
  if (args.has("place")) {
    TRY(check_name(args.value("place"), "place"));
    TRY_SET(options.place, agent::read_place(home.root() / "machines" / args.value("place")));
  } else {
    TRY_SET(options.place, joined_place(context));
  }
  TRY_SET(options.binary, self_path());
  TRY_SET(const std::optional<int> ready_fd, int_option(args, "ready-fd", 0));
  TRY_SET(const std::optional<int> token_fd, int_option(args, "token-fd", 0));
  TRY_SET(const std::optional<int> idle, int_option(args, "idle", 1));
  options.ready_fd = ready_fd.value_or(-1);
  options.idle = seconds(idle.value_or(0));
  if (token_fd) {
    TRY_SET(options.token, read_token_from(*token_fd));
  }
  ::unsetenv("TRAINYARD_TOKEN");  // Not for what we start.
  TRY(agent::run(options));
  return kExitOk;
}

}  // namespace trainyard::cli
