#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace trainyard::sim {

// A cluster of many nodes, each for one attempt at a time, with a queue of its own that keeps the
// order it is given. What it holds outlives a restart of the control plane, as a cluster does. For
// one thread.
class ClusterEngine final : public engine::Engine {
 public:
  // `ahead`: so many are taken to wait here for the next node that is free.
  ClusterEngine(int nodes, int ahead) : nodes_(nodes), window_(ahead) {}

  engine::Capacity capacity() const override;
  Status place(const Assignment& assignment) override;
  Status recover(const AttemptId& attempt) override;
  engine::Placement inspect(const AttemptId& attempt) override;
  std::string waits_for(const AttemptId& attempt) override;
  Status kill(const AttemptId& attempt) override;
  Status release(const AttemptId& attempt) override;
  void on_gone(Gone gone) override { gone_ = std::move(gone); }

  // ---- the script ----
  // Gives free nodes to those who wait; who got one.
  std::vector<AttemptId> start_waiting();
  // Its supervisor has ended by itself: the node is free.
  void end(const AttemptId& attempt);
  // Its node is taken away, and told to be.
  void evict(const AttemptId& attempt);

  // ---- what it saw ----
  // In the order they were placed, since this was last asked.
  std::vector<AttemptId> take_placed() { return std::exchange(placed_, {}); }
  int busy() const { return busy_; }
  int busy_most() const { return busy_most_; }
  size_t held() const { return jobs_.size(); }
  size_t waiting() const { return waiting_.size(); }

 private:
  enum class Stage { waiting, running, ended };

  const int nodes_;
  const int window_;
  int busy_ = 0;
  int busy_most_ = 0;
  std::map<AttemptId, Stage> jobs_;
  std::deque<AttemptId> waiting_;
  std::vector<AttemptId> placed_;
  Gone gone_;
};

}  // namespace trainyard::sim
