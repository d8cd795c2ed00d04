#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/slurm/commands.h"
#include "engine/slurm/scale_claims.h"
#include "engine/slurm/scale_nodes.h"
#include "engine/slurm/scale_policy.h"
#include "model/compute.h"

namespace trainyard::engine::slurm {

struct ScalerOptions {
  ComputeSpec compute;
  std::string server_id;
  std::string owner;  // Who claims nodes: the compute among all of the server's.
  Clock& clock;
  Log& log;
  Commands& commands;
  std::shared_ptr<ScaleClaims> claims;  // Shared by all computes; none: all nodes are ours.
  ScalePatience patience;
  std::function<void()> poke;  // Called when a step is due, from any thread.
};

// Brings nodes up and down by an admin's programs, as the policy says. It has no thread of its own
// but those of the programs; whoever watches Slurm calls step(). Thread-safe.
//
// Up: Slurm is told to take the node when it is there (a drain stays until one says so), `node_up
// NAME` runs, and the node counts once Slurm shows it idle. Down: Slurm is told to give it no more
// jobs, it is looked at once more, and only if nobody's job is there `node_down NAME` runs; then it
// is marked as off. A server that was restarted reads those marks and goes on. Programs may be
// called again for a node that is up, or down, already.
class Scaler {
 public:
  explicit Scaler(ScalerOptions options);
  ~Scaler();
  Scaler(const Scaler&) = delete;
  Scaler& operator=(const Scaler&) = delete;

  // What Slurm showed at `begun` or later.
  void saw(const std::vector<Node>& nodes, SteadyTime begun);
  // Decides, and starts programs. Nothing before the first saw(). Returns when to call again at the
  // latest.
  SteadyTime step(const std::vector<ScaleWant>& wants);
  void pause(bool paused);
  // Programs under way are killed; the next scaler goes on with what they did.
  void stop();

  bool looks_often() const;  // Nodes are up, or on their way.
  // What a want waits for, as decided last; empty: nothing is known.
  std::string words(const std::string& want) const;
  NodesSeen nodes() const;

 private:
  using Left = ScaleNodes::Left;
  struct Worker {
    std::jthread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };

  void start(const std::string& name, bool up);
  void bring_up(const std::string& name);
  void take_down(const std::string& name);
  Result<Left> leave(const std::string& name);
  Status run_program(const std::string& program, const std::string& name);
  // `scontrol update NodeName=…`; fine if it is so already.
  Status update(const std::string& name, const std::string& state, const std::string& reason);
  void tell(const std::vector<std::string>& told);

  const ScalerOptions options_;
  const Fd stop_;
  std::atomic<bool> stopped_{false};

  mutable std::mutex mutex_;
  ScaleNodes nodes_;  // Held by mutex_, as are these.
  ScalePolicy policy_;
  ScaleLimits limits_;
  std::map<std::string, std::string> words_;
  int wanted_ = 0;
  bool seen_ = false;
  std::string trouble_;

  std::list<Worker> workers_;  // step()'s alone.
};

}  // namespace trainyard::engine::slurm
