#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/id.h"

// What Slurm's programs print, and what they are asked to print. Text and not their --json:
// in 22.05 that ignores every filter (all jobs of all users, 3 kB each; ours are 70 bytes), its
// shape differs from version to version, and many sites build without it.
namespace trainyard::engine::slurm {

// One job as squeue has it.
struct Job {
  int64_t number = 0;  // Slurm's, and not an identity: it may be given out again.
  int index = -1;      // In the array of that number; -1: it is none, or all that is left of one.
  int64_t own = 0;     // Once it has started there: what srun knows it by; 0: its number.
  std::string state;   // "PENDING", "RUNNING", "COMPLETED"…, in Slurm's words.
  std::string reason;  // "Resources"; "None" where there is none.
  std::string partition;
  std::string name;
  std::string comment;
  std::string batch_host;  // Empty while it waits.
  std::string node_list;   // "n[1-4]"; empty while it waits.
  int nodes = 0;
  int exit_code = 0;              // Of the job script; 128 + N for signal N.
  std::optional<WallTime> start;  // When it started; while it waits, what Slurm expects.
  std::optional<WallTime> end;    // When it ended, or will at the latest.
  std::optional<seconds> limit;   // None: unlimited, or not known.

  bool operator==(const Job&) const = default;
  std::string id() const;  // "12", or "12_3".
  int64_t jobid() const { return own > 0 ? own : number; }
};

enum class Phase {
  waiting,  // PENDING, REQUEUED…
  running,  // Its nodes are given to it.
  ending,   // COMPLETING: nothing new comes, something may still run.
  ended,
};
Phase phase_of(std::string_view state);  // A state that is not known counts as running.

// The --Format for squeue, run with SLURM_TIME_FORMAT=%s and SLURM_BITSTR_LEN=0.
extern const char* const kQueueFormat;
// Lines that are not as asked for (a comment of somebody with a line break in it) are left out. An
// array of ours is as many jobs as it has places; one of others is what Slurm shows of it.
std::vector<Job> parse_queue(std::string_view text);

// Who submits and cancels a job: a compute of a home, "HOME/COMPUTE". Several computes, of one home
// or of several, may use the same Slurm under the same account; each touches its own jobs only.
std::string job_owner(std::string_view server_id, int64_t compute);
// What stood in that place before jobs named their compute: the home alone.
std::string_view home_of(std::string_view owner);

// `--job-name` and `--comment`: the identity of a job.
std::string name_of(const AttemptId& attempt);
std::string comment_of(std::string_view owner, const AttemptId& attempt);
// The attempt, if the comment is one of this owner's.
std::optional<AttemptId> attempt_of(std::string_view comment, std::string_view owner);

// One node in one partition.
struct Node {
  std::string name;
  std::string partition;
  bool default_partition = false;
  std::string state;    // "idle", "mixed", "drained"…, marks taken off.
  bool answers = true;  // false: Slurm's '*'.
  bool powered_off = false;
  int cpus = 0;
  int cpus_free = 0;
  int64_t memory_mb = 0;
  int gpus = 0;
  std::string address;           // By which it is reached: a number or a name.
  std::string reason;            // Why it is down or drained, in its admin's words; empty: none.
  std::optional<seconds> limit;  // Of its partition.
  bool operator==(const Node&) const = default;

  bool idle() const { return state == "idle" && answers; }
  bool in_use() const;  // Some or all of it works.
  bool usable() const { return idle() || in_use(); }
};

extern const char* const kNodesFormat;  // The --Format for sinfo --Node.
std::vector<Node> parse_nodes(std::string_view text);

// The number that `sbatch --parsable` prints: "12345" or "12345;cluster".
std::optional<int64_t> parse_submitted(std::string_view text);

// "1-02:03:04", "5:00", "90" (minutes); none for UNLIMITED and what is no time.
std::optional<seconds> parse_limit(std::string_view text);

// What a failing program of Slurm printed, in one line, without its "sbatch: error: " heads.
std::string slurm_words(std::string_view stderr_text);

// What to do about a submission that failed.
enum class Refusal {
  final,   // It will be refused again.
  full,    // Of so many jobs: later it may be taken.
  nobody,  // There is no controller to be found, and nothing reached one.
  away,    // The controller, or the way to it.
};
Refusal refusal_of(std::string_view stderr_text);

}  // namespace trainyard::engine::slurm
