#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/slurm/queue_text.h"
#include "engine/slurm/scale_policy.h"

namespace trainyard::engine::slurm {

// How long nodes are waited for.
struct ScalePatience {
  seconds program{900};  // For a program that brings a node up or down.
  seconds slow{120};     // For one that brings a node up, until another node is tried.
  seconds come{600};     // Then, for Slurm to see the node.
  seconds resume{3};     // Between two tries to have Slurm take it.
  seconds silent{10};    // Of a node that was up and does not answer, until it does not count;
  seconds gone{300};  // and until it is taken down, since its machine may be there and be paid for.
  seconds retry{30};  // Before one that did not come is tried again; doubled every time.
  seconds retry_max{3600};
};

// What we write as a node's reason in Slurm, by which a server that was restarted knows its own.
enum class Mark {
  leaves,  // Drained by us; its program has not ended well yet.
  off,     // Its program has ended well.
};
std::string mark_of(std::string_view server_id, Mark mark);

// A node in Slurm's words, sorted.
struct SortedNode {
  enum class Kind {
    idle,
    busy,      // Jobs are there, of whomever, or it is kept for one.
    silent,    // It does not answer, or has not yet.
    off,       // By our mark.
    leaving,   // By our mark.
    called,    // By our mark, and yet a job is there.
    unusable,  // Somebody else's, or Slurm's, decision.
  };
  Kind kind = Kind::silent;
  std::string why;  // unusable, silent: in words.
};
SortedNode sort_node(const Node& node, std::string_view server_id);

// Nodes that nobody brings up and down, as people see them. Of that partition; empty: the default.
// `server_id`: whose marks are known.
NodesSeen nodes_as_seen(const std::vector<Node>& nodes, std::string_view partition,
                        std::string_view server_id = {});

// The nodes of a target and what is under way with each. No thread, no clock, no Slurm.
class ScaleNodes {
 public:
  ScaleNodes(std::string server_id, ScalePatience patience)
      : server_id_(std::move(server_id)), patience_(patience) {}

  // Slurm's nodes of our partition, as it had them at `begun` or later. `others`: those that
  // another compute brings up and down, with its name.
  void saw(const std::vector<Node>& nodes, const std::map<std::string, std::string>& others,
           SteadyTime begun, SteadyTime now);

  std::vector<ScaleNode> view(SteadyTime now) const;
  std::vector<NodeState> states(SteadyTime now) const;
  bool anything_on() const;   // Or on its way, up or down.
  bool anything_due() const;  // A program works, or a node is awaited.

  // ---- programs ----
  void begin_up(const std::string& name, SteadyTime now);
  // It ended; from now on Slurm is to see the node.
  void ended_up(const std::string& name, const Status& ended, SteadyTime now);
  void begin_down(const std::string& name, SteadyTime now);
  enum class Left { yes, in_use };
  void ended_down(const std::string& name, const Result<Left>& left, SteadyTime now);

  // Those that Slurm has to be told to take (again): they are there, and it keeps them out.
  std::vector<std::string> take_resumes(SteadyTime now);
  // Those that did not come and are to be taken down, so that nobody pays for them.
  std::vector<std::string> take_lost();
  // What happened, once: "node n3 did not come: exit 1".
  std::vector<std::string> take_told() { return std::exchange(told_, {}); }

 private:
  enum class Work { none, up, awaited, down };
  struct Entry {
    Node seen;
    SortedNode sorted;
    ScaleNode::Is is = ScaleNode::Is::off;
    SteadyTime since{};
    SteadyTime changed{};  // By us.
    Work work = Work::none;
    SteadyTime work_since{};
    SteadyTime heard{};    // It was up.
    SteadyTime resumed{};  // Slurm was told.
    bool lost = false;     // It did not come, and its machine may be there all the same.
    bool cleaned = false;  // Being taken down for that.
    std::string other;     // The compute that brings it up and down, if not ours.
    int failures = 0;
    SteadyTime not_before{};
    std::string trouble;
  };

  void sort(Entry& entry, SteadyTime now);
  void set(Entry& entry, ScaleNode::Is is, SteadyTime now);
  void did_not_come(const std::string& name, Entry& entry, std::string why, SteadyTime now);
  void wait_longer(Entry& entry, SteadyTime now);

  const std::string server_id_;
  const ScalePatience patience_;
  std::vector<std::string> order_;  // As Slurm has them.
  std::map<std::string, Entry> entries_;
  std::vector<std::string> told_;
};

}  // namespace trainyard::engine::slurm
