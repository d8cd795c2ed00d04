#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/run_spec.h"

namespace trainyard::engine::slurm {

// A node as the policy sees it.
struct ScaleNode {
  enum class Is {
    off,       // To be had: it may be brought up.
    coming,    // Its program runs, or has run and Slurm does not see the node yet.
    up,        // Jobs may start there.
    leaving,   // No job starts there any more; it goes down.
    unusable,  // Not ours to bring up or down.
  };
  std::string name;
  Is is = Is::off;
  SteadyTime since{};        // When it came to be so; of one that is up: when it was last in use.
  bool busy = false;         // up: somebody's job is there, or is to be: it is never taken down.
  bool at_work = false;      // A program of ours works on it.
  bool slow = false;         // coming: for longer than usual, so that others are tried first.
  SteadyTime not_before{};   // Not tried until then: off, to bring it up; leaving, to take it down.
  std::string trouble;       // Why it did not come the last time, or what makes it unusable.
  int cpus = 0;              // 0: not known.
  int cpus_free = 0;         // up.
  int64_t memory_bytes = 0;  // 0: not known.
  int gpus = 0;
};

// A job of ours that waits for nodes.
struct ScaleWant {
  std::string id;
  int nodes = 1;
  Resources each;  // Of every node.
};

struct ScaleLimits {
  int min_nodes = 0;
  int max_nodes = 1;
  seconds idle{1800};
  bool paused = false;
  // For Slurm to start a job whose nodes are all there; then other nodes are tried for it.
  seconds fit{30};
  // Nodes are held for a job that cannot start yet for so long; then they are let go.
  seconds hold{1200};
  seconds again{300};  // Until it is tried once more; twice as long every time.
  seconds again_max{3600};
};

struct ScaleDecision {
  std::vector<std::string> up;
  std::vector<std::string> down;
  int wanted = 0;                            // So many are to be up then.
  std::map<std::string, std::string> words;  // What each want waits for.
  std::vector<std::string> told;             // What an admin should know, once.
  std::optional<SteadyTime> again;           // Something may be due then.
};

// Which nodes to bring up and down: no thread, no clock, no Slurm. It remembers, of jobs that wait,
// for how long nodes are held for them; all else is what it is given. Promises:
// - it brings up no node when max_nodes are on (up, on their way up or down), and takes none down
//   when min_nodes are up; paused: brings up none, and there is no minimum;
// - a node in use is never taken down, nor one that a job waits for;
// - nodes for a job of several are brought up when all can be had, and not held beyond a limit;
// - of nodes that did not come, none is tried before its time; others are tried in their place, and
//   in that of one that is slow to come.
class ScalePolicy {
 public:
  // `wants` in the order in which Slurm will start them.
  ScaleDecision decide(const ScaleLimits& limits, const std::vector<ScaleNode>& nodes,
                       const std::vector<ScaleWant>& wants, SteadyTime now);

 private:
  // What is remembered of a want.
  struct Hold {
    std::optional<SteadyTime> since;     // A node is held for it.
    std::optional<SteadyTime> complete;  // All are there.
    std::set<std::string> unfit;         // It was not started on these.
    SteadyTime given_up_until{};
    int times = 0;    // It was given up.
    std::string why;  // In words.
  };
  class Round;

  std::map<std::string, Hold> holds_;
  SteadyTime last_{};
};

}  // namespace trainyard::engine::slurm
