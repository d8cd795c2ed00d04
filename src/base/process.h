#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard {

struct SpawnOptions {
  std::vector<std::string> command;                               // An absolute path first.
  std::optional<std::map<std::string, std::string>> environment;  // Absent: ours.
  fs::path folder;                                                // Empty: ours.
  int stdin_fd = -1;                                              // -1: /dev/null.
  int stdout_fd = -1;
  int stderr_fd = -1;
  std::vector<int> kept_fds;  // Inherited under the same numbers.
  bool new_session = false;   // A daemon: outlives us and our terminal.
};

// A started child. Not killed by the destructor: what outlives us is the caller's business.
struct Child {
  pid_t pid = 0;
  Fd pidfd;  // Readable when it has ended.
};

// Starts a program by vfork and exec; an error of exec is returned, not lost in the child.
Result<Child> spawn(const SpawnOptions& options);
// The same for one that is to be waited for with waitpid(2). It needs no pidfd: it works on the
// kernels of nodes, which may be old (RHEL 8 has 4.18).
Result<pid_t> spawn_unwatched(const SpawnOptions& options);

// Every signal unblocked and at its default, for a child between fork and exec: a handler of ours
// would run there on memory that is ours; an ignored SIGPIPE would make programs spin on a closed
// pipe.
void reset_signals();

// A pidfd for a process that need not be our child.
Result<Fd> open_pidfd(pid_t pid);

// The path of the running binary.
Result<fs::path> self_path();
// This boot of this machine, from the kernel: a pid means something only together with it.
std::string boot_id();
std::string host_name();

}  // namespace trainyard
