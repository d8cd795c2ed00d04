#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/assignment.h"

namespace trainyard::engine {

// What a target has, for the scheduler to give out: of a machine, all of it; of a cluster, what one
// node has at most, as far as that is known (0: not known).
struct Capacity {
  int cpus = 0;
  int64_t memory_bytes = 0;
  std::vector<int> gpus;  // Device numbers.
  int nodes = 1;          // The most that one run may have.
  // 0: a node is shared by runs as far as they fit. Else there are so many nodes, which share one
  // machine and its GPUs, and each is one run's alone.
  int slots = 0;
  // 0: we decide what fits when. Else it has a queue of its own, and so many of our runs may wait
  // there at a time.
  int window = 0;
  // Others can read what a job is handed: it gets a ticket for its token (model/handover.h).
  bool tickets = false;
  std::vector<std::string> pythons = {};  // As in MachineFacts.
};

// One node of a target, as people see it.
struct NodeState {
  enum class Is {
    off,
    starting,  // Being brought up, or awaited.
    idle,
    running,   // In use, by our runs or by jobs of others.
    leaving,   // Being taken down.
    unusable,  // It takes no jobs, or did not come: `reason` says why.
  };
  std::string name;
  std::string address;  // By which others reach it: a number or a name; empty: not known.
  Is is = Is::off;
  std::vector<RunId> runs;  // Ours that are on it.
  std::string reason;       // In words; empty: there is nothing to say.
  int cpus = 0;
  int64_t memory_bytes = 0;
  int gpus = 0;
};

// All nodes of a target.
struct NodesSeen {
  std::vector<NodeState> nodes;
  int wanted = 0;       // So many are to be up.
  std::string trouble;  // What keeps nodes from being brought up or down; empty: nothing.
  bool away = false;    // What has the nodes does not answer: `trouble` says so.
  seconds age{0};       // Of what is shown.
};

// What supervisors of a target do while the server is away. 0: they go on for ever.
struct Outage {
  seconds limit{0};   // They stop their ranks so long after the server's last answer …
  seconds unsent{0};  // … and end so long after their ranks, with what they could not send.
};
// After the limit and the ranks' grace, they are taken for stopped: a request that hangs at the
// limit, and clocks that differ, are well within.
inline constexpr seconds kOutageMargin{600};

enum class Placement {
  unknown,  // Never placed here, or forgotten.
  live,     // Its supervisor is there, or on its way.
  gone,     // Its supervisor has ended and will not report again.
};

// Runs commands on the nodes of a target beside what runs there (`node exec`). It may outlive the
// engine that gave it, and runs nothing then. Thread-safe.
class NodeShell {
 public:
  virtual ~NodeShell() = default;

  struct Named {
    std::string name;
    bool off = false;  // Brought up when a run needs it, and not up now.
  };
  // The target's nodes, as they are now. Blocks, with a limit.
  virtual Result<std::vector<Named>> nodes() = 0;

  struct Wish {
    std::string node;
    std::vector<std::string> command;
    seconds timeout{60};
    seconds wait{10};                             // For room on a node that is busy.
    std::function<void(std::string_view)> print;  // What it prints, as it does.
    std::function<bool()> wanted;                 // Asked again and again; no more: it is ended.
  };
  struct Ended {
    int code = 0;
    std::string words;  // Why it was ended; empty: by itself.
  };
  // Blocks until it has ended. An error: it did not run.
  virtual Result<Ended> run(const Wish& wish) = 0;
  // So many may be run at a time.
  virtual int at_once() const = 0;
};

// Gets supervisors onto nodes. An engine knows machines; it knows nothing of data, environments or
// ranks. Every call is idempotent in the attempt. Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Capacity capacity() const = 0;

  // Gets a supervisor going with this assignment. Returns at once; it reports through the API.
  virtual Status place(const Assignment& assignment) = 0;

  // After a restart of the server: takes up again the watch over an attempt that was placed before.
  // A supervisor that died meanwhile leaves journal and spool; a new one is started on them to send
  // what is left and to end the attempt.
  virtual Status recover(const AttemptId& attempt) = 0;

  virtual Placement inspect(const AttemptId& attempt) = 0;

  // What a placed attempt waits for before its supervisors appear, in words and numbers; empty:
  // nothing is known. Quick: what was seen last.
  virtual std::string waits_for(const AttemptId&) { return {}; }

  // false: its job is known to wait still, so that nobody can rightly speak for it. Quick; what is
  // known is brought up to date soon.
  virtual bool may_have_started(const AttemptId&) { return true; }

  // Its nodes; none where they are not known. What was seen longer than some seconds ago is looked
  // at again, for some seconds at most.
  virtual NodesSeen nodes() { return {}; }

  // For commands on its nodes; null: it has no way to run any.
  virtual std::shared_ptr<NodeShell> shell() { return nullptr; }

  // A paused target gets nothing new: nodes that come and go by need only go.
  virtual void pause(bool) {}

  // Why nothing at all is heard from where it runs, in words; empty: it is there.
  virtual std::string absence_words() { return {}; }

  // What it held is given to others from now on; release() follows when its supervisor has ended.
  virtual void vacate(const AttemptId&) {}

  // Kills the supervisor and all it started, at once. For what no longer answers.
  virtual Status kill(const AttemptId& attempt) = 0;

  // The attempt is over: removes what it left on the node.
  virtual Status release(const AttemptId& attempt) = 0;

  virtual Outage outage() const { return {}; }

  // Called, on a thread of the engine, when a supervisor has ended for good: the caller checks
  // whether its last report came, and if not the attempt is lost. For an attempt that reported an
  // eviction, `why` is what the supervisor could not know: preempted, out of time, cancelled.
  struct Going {
    std::string why;
    // It will not be placed there, ever: what was asked for is refused, in the engine's own words.
    bool refused = false;
    bool evicted = false;  // The node was taken away: the run goes on elsewhere.
    bool stopped = false;  // `why` is what its supervisor was told to stop for.
  };
  using Gone = std::function<void(const AttemptId&, const Going& going)>;
  virtual void on_gone(Gone gone) = 0;
};

}  // namespace trainyard::engine
