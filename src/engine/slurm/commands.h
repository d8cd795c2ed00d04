#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "engine/slurm/queue_text.h"
#include "model/compute.h"

namespace trainyard::engine::slurm {

// What we ask of a Slurm. Every call blocks, with a time limit. Thread-safe.
class Commands {
 public:
  virtual ~Commands() = default;

  // Hands in a job script; returns the job's number. `invalid`: refused, in Slurm's words.
  // `conflict`: there are too many jobs just now. `not_found`: there is no Slurm to take it.
  // `unavailable`: no answer, and the job may have been accepted all the same.
  virtual Result<int64_t> submit(const std::string& script) = 0;
  // All jobs of our user, those that ended a while ago too.
  virtual Result<std::vector<Job>> queue() = 0;
  // The nodes of our partition, or of all.
  virtual Result<std::vector<Node>> nodes() = 0;
  // Cancels the job of that name; with a number, only the one that has both. Fine if there is none.
  virtual Status cancel(const std::string& name, int64_t number = 0) = 0;
  // One place of the array that has that name and number. Fine if it is over.
  Status cancel_place(const std::string& name, int64_t number, int index);
  // Whether there is a Slurm at all: its programs, and the way to them. Needs no controller.
  Status check();
  // Any other of its programs, `scontrol` say: its standard output.
  virtual Result<std::string> ask(std::vector<std::string> command) = 0;
  // One that prints as it goes and takes its time, `srun` say; see ProgramOptions. It is ended
  // where it runs, also when the way there breaks.
  struct Stream {
    std::function<void(std::string_view)> print;
    std::function<bool()> wanted;
  };
  struct StreamEnd {
    int exit_code = 0;
    std::string errors;  // What was on its standard error.
  };
  virtual Result<StreamEnd> stream(std::vector<std::string>, const Stream&) {
    return fail(ErrorKind::unavailable, "nothing can be run here");
  }
  // Makes calls under way fail with `cancelled`, and all after them. Any thread.
  virtual void stop() = 0;
};

struct CommandOptions {
  std::string ssh;         // USER@LOGIN; empty: this machine.
  std::string slurm_conf;  // Empty: Slurm's default.
  std::string partition;   // For nodes(); empty: all.
  // Where the sockets of kept ssh connections lie, made 0700. None is kept, and each command logs
  // in anew, where it is empty or its path is longer than a socket's may be.
  fs::path ssh_folder;
  fs::path ssh_control;  // The socket of a connection that somebody keeps; empty: see ssh_folder.
  seconds timeout{15};   // Slurm's own programs wait 9 s for a controller that is not there.
  std::string path;      // Where programs are looked for; empty: $PATH and where Slurm often is.
};
CommandOptions command_options(const ComputeSpec& spec, const fs::path& ssh_folder);

// Slurm's own programs, here or on a login node, in a clean environment: nothing of ours (an
// SBATCH_PARTITION, the SLURM_JOB_ID of a server that itself runs in a job) changes what they do,
// and nothing of ours reaches a job.
std::unique_ptr<Commands> make_commands(CommandOptions options);

}  // namespace trainyard::engine::slurm
