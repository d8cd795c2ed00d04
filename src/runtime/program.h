#pragma once

#include <sys/resource.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace trainyard::runtime {

// Where a program that cannot be started failed.
enum class StartStep {
  none,
  folder,       // Entering the run's folder.
  interpreter,  // The program is there; what runs it is not.
  exec,
};

struct StartFailure {
  StartStep step = StartStep::none;
  int number = 0;  // errno
};

// A rank's program with everything exec needs, made before any fork: a child between vfork and exec
// may not allocate. Not copied or moved: it points into itself.
class Program {
 public:
  Program(const std::vector<std::string>& command,
          const std::map<std::string, std::string>& environment, fs::path folder);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  struct Streams {
    int in = -1;
    int out = -1;
    int err = -1;
  };
  enum class OnParentDeath { live, die };

  struct Started {
    pid_t pid = 0;
    StartFailure failure;  // With a failure there is no process.
  };
  // Starts it as the leader of a session of its own, with default signals, these streams and no
  // other descriptor. Calling it needs no lock and no memory.
  Started start(const Streams& streams, const rlimit& files, OnParentDeath on_death) const;

 private:
  std::vector<std::string> command_;
  std::vector<std::string> environment_;
  std::vector<std::string> candidates_;  // The paths to try, in order.
  fs::path folder_;
  std::vector<char*> argv_;
  std::vector<char*> envp_;
};

// The paths execvp(3) would try: `name` itself if it has a slash, else one per folder of `path`.
std::vector<std::string> program_candidates(std::string_view name, std::string_view path);

// What a shell answers: 127 not found, 126 found but not executable.
int exit_code_of(const StartFailure& failure);
// A plain sentence: "program 'pyhton' was not found in PATH".
std::string explain(const StartFailure& failure, std::string_view program);

}  // namespace trainyard::runtime
