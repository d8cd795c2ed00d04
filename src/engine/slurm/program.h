#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace trainyard::engine::slurm {

// Two ends of a stream; ours does not block. A socket pair rather than a pipe: writing to one that
// was closed needs no SIGPIPE.
struct Pipe {
  Fd ours;
  Fd theirs;
};
Result<Pipe> make_pipe();

struct ProgramOptions {
  std::vector<std::string> command;  // An absolute path first.
  std::map<std::string, std::string> environment;
  std::string input;
  bool keeps_input = false;  // Its standard input stays open, so that it sees the end of ours.
  seconds timeout{15};
  int stop_fd = -1;  // Readable: no longer wanted. -1: none.
  // Of one that prints as it goes: what is on its standard output, which is not kept then.
  std::function<void(std::string_view)> print;
  // Asked ten times a second. Once it says no, the program gets SIGTERM, a moment to end, and is
  // killed. While there is such a question its standard input stays open.
  std::function<bool()> wanted;
};

struct ProgramEnd {
  int exit_code = 0;  // 128 + N for signal N.
  bool timed_out = false;
  std::string output;
  std::string errors;
};

// Runs a program to its end, or kills it and all it started at the limit. `cancelled` on stop_fd.
// What it left behind with its standard error still open (an ssh that keeps a connection) is not
// waited for.
Result<ProgramEnd> run_program(const ProgramOptions& options);

// The program of that name in a PATH; not_found if there is none.
Result<std::string> find_program(std::string_view name, std::string_view path);

}  // namespace trainyard::engine::slurm
