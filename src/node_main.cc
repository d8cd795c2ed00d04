// trainyard-node: the supervisor alone, linked statically, for nodes that we know nothing of. It
// travels in the server's binary (node/program.h).
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/version.h"
#include "container/bubblewrap_rank.h"
#include "container/run_container.h"
#include "env/realise_program.h"
#include "http/relay.h"
#include "runtime/mpi_programs.h"
#include "supervisor/supervise.h"

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitBug = 70;

constexpr const char* kUsage =
    "usage: trainyard-node supervise --folder DIR [--node NUMBER [--token-stdin]]\n"
    "       trainyard-node relay PORT [HOST]...\n"
    "       trainyard-node --version\n";

// A scheduler may start us with some of its three files closed.
void open_standard_files() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) _exit(kExitBug);
  }
}

// On a login node, at the far end of a server's ssh (engine/slurm/tunnel.h).
int relay(const std::vector<std::string_view>& words) {
  const trainyard::Result<int64_t> port = trainyard::parse_int(words[1], "port");
  if (!port || *port < 0 || *port > UINT16_MAX) {
    std::fputs(kUsage, stderr);
    return kExitUsage;
  }
  trainyard::http::RelayOptions options{.port = static_cast<uint16_t>(*port)};
  options.toward.assign(words.begin() + 2, words.end());
  // "client port server port", as sshd has it: where it was reached, others may reach it too.
  const char* connection = std::getenv("SSH_CONNECTION");
  const auto ends = trainyard::split(connection != nullptr ? connection : "", ' ');
  if (ends.size() >= 3) options.or_on = ends[2];
  const trainyard::Status done = trainyard::http::relay(options, STDOUT_FILENO);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return 1;
}

int run(const std::vector<std::string_view>& words) {
  if (words.size() == 1 && words[0] == "--version") {
    std::printf("trainyard-node %s\n", std::string(trainyard::kVersion).c_str());
    return std::fflush(stdout) == 0 ? 0 : kExitBug;
  }
  // Which node this is stands in the assignment; the number is for who looks at a list of
  // processes.
  using trainyard::supervisor::TokenFrom;
  const bool by_input = words.size() == 6 && words[5] == "--token-stdin";
  const bool numbered = (words.size() == 5 || by_input) && words[3] == "--node";
  if ((words.size() == 3 || numbered) && words[0] == "supervise" && words[1] == "--folder") {
    return trainyard::supervisor::supervise(
        words[2], by_input ? TokenFrom::standard_input : TokenFrom::assignment);
  }
  if (words.size() >= 2 && words[0] == "relay") return relay(words);
  const std::vector<std::string> plain(words.begin(), words.end());
  if (const int code = trainyard::runtime::mpi_program(plain); code >= 0) return code;
  if (const int code = trainyard::container::container_program(plain); code >= 0) return code;
  if (const int code = trainyard::container::bubblewrap_program(plain); code >= 0) return code;
  if (const int code = trainyard::env::realise_program(plain); code >= 0) return code;
  std::fputs(kUsage, stderr);
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  signal(SIGPIPE, SIG_IGN);
  mallopt(M_ARENA_MAX, 1);  // Its threads allocate little: another heap would cost more.
  try {
    return run({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n       This is a bug in Trainyard.\n", error.what());
    return kExitBug;
  }
}
