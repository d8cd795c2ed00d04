#include "cluster_engine.h"

#include <algorithm>

namespace trainyard::sim {

using engine::Placement;

engine::Capacity ClusterEngine::capacity() const {
  return {.cpus = 8, .memory_bytes = int64_t{64} << 30, .nodes = nodes_, .window = window_};
}

Status ClusterEngine::place(const Assignment& assignment) {
  const AttemptId attempt = assignment.id();
  if (!jobs_.emplace(attempt, Stage::waiting).second) return {};
  waiting_.push_back(attempt);
  placed_.push_back(attempt);
  return {};
}

Status ClusterEngine::recover(const AttemptId& attempt) {
  if (jobs_.contains(attempt)) return {};
  return fail(ErrorKind::not_found, "attempt " + attempt.str() + " was never placed here");
}

Placement ClusterEngine::inspect(const AttemptId& attempt) {
  const auto found = jobs_.find(attempt);
  if (found == jobs_.end()) return Placement::unknown;
  return found->second == Stage::ended ? Placement::gone : Placement::live;
}

std::string ClusterEngine::waits_for(const AttemptId& attempt) {
  const auto found = jobs_.find(attempt);
  if (found == jobs_.end() || found->second != Stage::waiting) return {};
  return "waits for a node: none of " + std::to_string(nodes_) + " is free";
}

Status ClusterEngine::kill(const AttemptId& attempt) {
  end(attempt);
  return {};
}

Status ClusterEngine::release(const AttemptId& attempt) {
  if (inspect(attempt) == Placement::live) {
    return fail(ErrorKind::conflict, "attempt " + attempt.str() + " has a supervisor still");
  }
  jobs_.erase(attempt);
  return {};
}

std::vector<AttemptId> ClusterEngine::start_waiting() {
  std::vector<AttemptId> started;
  while (busy_ < nodes_ && !waiting_.empty()) {
    const AttemptId attempt = waiting_.front();
    waiting_.pop_front();
    jobs_.at(attempt) = Stage::running;
    ++busy_;
    started.push_back(attempt);
  }
  busy_most_ = std::max(busy_most_, busy_);
  return started;
}

void ClusterEngine::end(const AttemptId& attempt) {
  const auto found = jobs_.find(attempt);
  if (found == jobs_.end() || found->second == Stage::ended) return;
  if (found->second == Stage::running) --busy_;
  if (found->second == Stage::waiting) std::erase(waiting_, attempt);
  found->second = Stage::ended;
}

void ClusterEngine::evict(const AttemptId& attempt) {
  end(attempt);
  if (gone_) gone_(attempt, {.why = "its node was taken away", .evicted = true});
}

}  // namespace trainyard::sim
