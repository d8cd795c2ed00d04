#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/slurm/commands.h"
#include "model/compute.h"

namespace trainyard::engine::slurm {

// How a command gets onto a node: in a job of its own, or beside one of ours that has the node.
struct ExecPlan {
  std::string node;
  std::vector<std::string> command;
  seconds timeout{60};
  seconds wait{10};
  int64_t beside = 0;  // The job's number; 0: in one of its own.
};

// The words of srun. On the node a shell says first that it has begun, so that what srun says of
// itself and the command's own exit code are told apart.
std::vector<std::string> exec_words(const ExecPlan& plan, const ComputeSpec& compute);

// Takes the shell's word out of what comes back.
class ExecStart {
 public:
  // What is to be printed of these bytes.
  std::string_view take(std::string_view bytes);
  bool begun() const { return seen_ >= kWord.size(); }

  static constexpr std::string_view kWord = "trainyard:begun\n";

 private:
  size_t seen_ = 0;
};

// Why srun ran nothing, in words, and what to do about it.
Error exec_refusal(const ExecPlan& plan, std::string_view errors);

struct ShellOptions {
  ComputeSpec compute;
  std::string server_id;
  std::string owner;  // Of jobs: slurm::job_owner().
  Clock& clock;
  std::shared_ptr<Commands> commands;
};

// A command on a node where one of our jobs runs goes beside it, into what that job has; else it is
// a job of one CPU that starts at once or not at all. As whoever the server is to Slurm.
std::shared_ptr<NodeShell> make_shell(ShellOptions options);

}  // namespace trainyard::engine::slurm
