#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/run.h"
#include "node.h"

namespace trainyard::sim {

// What must hold of every run at every moment, checked from outside: against what was read before
// and against what really happened on the nodes.
class Rules {
 public:
  // The first broken one, in words; empty: all hold.
  const std::string& broken() const { return broken_; }
  void expect(bool holds, const std::string& rule);

  using Nodes = std::map<AttemptId, Node>;
  // A run as it is read now.
  void check_run(const Run& run, const Nodes& nodes);
  // The machine: nothing given out twice, no run on two nodes.
  void check_machine(const Nodes& nodes, int cpus, int64_t memory_bytes);
  // The server has said that it has this attempt's reports up to here.
  void acknowledged(const Node& node, int64_t seq);

  bool is_over(const RunId& id) const { return over_.contains(id); }

 private:
  void check_events(const Run& run);
  void check_attempts(const Run& run, const Nodes& nodes);
  void check_phases(const Run& run, const Node& node);
  void check_over(const Run& run, const Nodes& nodes);
  void check_order(const Run& run);

  std::string broken_;
  std::map<RunId, int64_t> versions_;
  std::map<RunId, Run> over_;               // As first read when it was over.
  std::map<int64_t, RunId> never_claimed_;  // By number: those that still wait for their first try.
  std::set<AttemptId> known_to_have_run_;   // The server was told that user code may have run.
  std::map<AttemptId, int64_t> acknowledged_;
};

}  // namespace trainyard::sim
