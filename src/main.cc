// The one binary: command line, server and supervisor.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/exit.h"
#include "container/bubblewrap_rank.h"
#include "container/run_container.h"
#include "env/realise_program.h"
#include "runtime/mpi_programs.h"

namespace {

// A script may start us with some of its three files closed; a socket of ours in their place would
// get what is meant for a terminal.
void open_standard_files() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) _exit(trainyard::cli::kExitBug);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  signal(SIGPIPE, SIG_IGN);
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    if (const int code = trainyard::runtime::mpi_program(words); code >= 0) return code;
    if (const int code = trainyard::container::container_program(words); code >= 0) return code;
    if (const int code = trainyard::container::bubblewrap_program(words); code >= 0) return code;
    if (const int code = trainyard::env::realise_program(words); code >= 0) return code;
    return trainyard::cli::run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n       This is a bug in Trainyard.\n", error.what());
    return trainyard::cli::kExitBug;
  }
}
