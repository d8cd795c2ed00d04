#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "model/assignment.h"
#include "model/compute.h"

namespace trainyard::engine::slurm {

// All that makes the job script of an attempt.
struct JobPlan {
  AttemptId attempt;
  std::string owner;  // job_owner()
  std::string server_url;
  bool says_where = false;  // The server does not know that URL itself: nodes tell it.
  std::string ticket;       // For the attempt's token, once: model/handover.h.
  int nodes = 1;
  Resources resources;
  Priority priority = Priority::normal;
  int64_t minutes = 0;  // Slurm's time limit; 0: what the partition gives.
  // ---- the target's ----
  std::string partition;
  std::string account;
  std::string qos;
  std::vector<std::string> sbatch;
  std::string setup;
  // ---- nodes' ----
  std::string program_sha256;
  std::string program_path;
  std::string ca_pem;
  std::string scratch;
  std::string shared;  // For what could not be sent; empty: there is none.
  std::string keep;    // Where the program is kept for the next job; empty: in /var/tmp or /tmp.
  seconds reach_patience{120};

  bool operator==(const JobPlan&) const = default;
};

// How the job script ends when no supervisor said how the attempt did: the one word that a node can
// send us when it cannot reach us, by way of Slurm. slurm_job.bash has the same numbers.
enum class ScriptExit {
  no_tool = 81,         // https, and nothing that speaks it.
  unreachable = 82,     // The server, for so long as we have patience.
  bad_program = 83,     // Its SHA-256 is another.
  refused = 84,         // The server answered, but not with an assignment.
  no_folder = 85,       // No private folder to work in.
  setup = 86,           // The target's own text failed.
  no_srun = 87,         // Several nodes, and no srun on the first.
  stopped = 88,         // Slurm told it to stop: preempted, or near its time limit.
  not_executable = 89,  // trainyard-node does not start there.
  unsent = 90,          // The server was away when it was done, for longer than it waits.
  shelved = 91,         // The same, and what was unsent is in the shared folder.
};

// Where a node puts what it could not send, within the shared folder.
std::string shelf_of(std::string_view owner, const AttemptId& attempt, int node);

// So long before its limit Slurm tells a job to stop.
inline constexpr seconds kSignalLead{90};

// What a run asks for, on this target. Slurm's time limit is a backstop, since the supervisor keeps
// the run's own from when user code starts: it is later by the grace and time to stage, yet not
// beyond the partition's (0: not known) if the run's own is within it.
JobPlan plan_job(const Assignment& assignment, const ComputeSpec& compute, std::string_view owner,
                 seconds partition_limit);

// The text for sbatch's standard input. Bash and coreutils are all it needs on a node; one node is
// served by the batch step itself (an srun would halve the jobs that Slurm gets done), more by an
// srun that has one task a node.
//
// Order of #SBATCH lines, of which Slurm takes the last: what a target may change (output,
// partition), the target's own lines, then what is ours to say: who it is and what the run asked
// for. Priorities: high is --nice=0, normal 100, low 1000; only administrators may have less than
// 0.
//
// Several plans that are alike (batch.h) make the script of an array, whose places are theirs.
std::string job_script(const std::vector<JobPlan>& plans);
inline std::string job_script(const JobPlan& plan) { return job_script(std::vector{plan}); }

// One word of a POSIX shell, and one value of an #SBATCH line, whatever is in it.
std::string shell_quoted(std::string_view text);
std::string sbatch_quoted(std::string_view text);

}  // namespace trainyard::engine::slurm
