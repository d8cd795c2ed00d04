#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "model/report.h"

// An attempt on several nodes: each has a supervisor of its own, and what they tell makes one run.
// No I/O, no clock.
namespace trainyard {

// One of an attempt's nodes, as its supervisor speaks for it.
struct AttemptNode {
  AttemptId attempt;
  int node = 0;
  // Which supervisor: the first one that reports claims the node, and any other is refused. Empty:
  // one of an earlier version.
  std::string instance = {};
  // Orders::epoch under which all that the attempt printed and told was found at the server.
  std::string epoch = {};

  AttemptNode(AttemptId of, int number = 0) : attempt(std::move(of)), node(number) {}
};

// What is known of a node of an attempt.
struct NodePart {
  int node = 0;
  Host host;                        // Known from `ready` on.
  std::optional<ReportKind> phase;  // The last one reached; none: not heard of yet.
  int64_t report_seq = 0;           // The last report taken,
  int64_t sample_seq = 0;           // and the last sample.
  std::string instance;             // AttemptNode::instance that claimed the node.
  std::optional<RankExit> failed;   // The first of its ranks to fail, and when.
  WallTime failed_at{};
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;
  int64_t memory_peak_bytes = 0;
  std::optional<AttemptEnd> end;

  bool operator==(const NodePart&) const = default;
};

// How far the attempt is: preparing with the first of its nodes, and else as far as the last.
// `parts` has all of them.
std::optional<ReportKind> phase_of(std::span<const NodePart> parts);

// User code may have run on one of them.
bool any_started(std::span<const NodePart> parts);

// What node `node` is to be told: to go, once all are ready; to stop, once another has failed; that
// all is done, once no node has a worker left.
Orders orders_of(std::span<const NodePart> parts, int node);

// Every node has ended, or was not heard of: the others then ended before any rank could start, and
// it is refused when it comes.
bool is_over(std::span<const NodePart> parts);

// What the attempt came to, being over: the first rank to fail is the run's failure, and those that
// were stopped for it are not. Outputs are left to the caller.
AttemptEnd combine(std::span<const NodePart> parts);

// "2 of 4 nodes are ready"; empty once all are.
std::string barrier_text(std::span<const NodePart> parts);

}  // namespace trainyard
