#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/home.h"
#include "base/log.h"
#include "control/control.h"
#include "engine/slurm/scale_claims.h"
#include "engine/slurm/tunnel.h"
#include "model/compute.h"
#include "node/program.h"
#include "store/store.h"

namespace trainyard::api {

// The engines of the computes that people made: opened at start, and as computes come, change and
// go. Thread-safe, as what it works with is.
class Targets {
 public:
  struct Parts {
    Clock& clock;
    Log& log;
    const Home& home;
    store::Store& store;
    control::Control& control;
    std::string url;        // Ours, for nodes.
    bool loopback = false;  // Which other machines cannot reach.
  };
  explicit Targets(Parts parts) : parts_(std::move(parts)) {}

  // The engine of a compute that names none: Slurm where the server finds it, else slots here.
  static Status choose_engine(ComputeSpec& spec);
  // Whether it can be, as far as that is known before it is made: a login node that answers, a
  // partition that is there. Returns why its Slurm does not answer; empty: it does.
  Result<std::string> check(const ComputeSpec& spec) const;
  // Whether all of its Slurm's nodes are this machine, so that they reach it by loopback.
  static bool nodes_are_here(const ComputeSpec& spec);
  // All there are; one that cannot be is told of in the log, and its runs wait.
  Status open_all();
  // A new one, or one that has changed: runs under way there are taken up again.
  Status open(const Compute& compute);
  void close(const Compute& compute);
  // Only whether it is paused has changed.
  void pause(const Compute& compute);
  // The nodes of it; none where it is not open.
  engine::NodesSeen nodes(const Compute& compute);
  // For commands on them; null where it is not open, or has no way to run any.
  std::shared_ptr<engine::NodeShell> shell(const Compute& compute);

 private:
  Result<std::shared_ptr<engine::Engine>> open_slots(const Compute& compute);
  Result<std::shared_ptr<engine::Engine>> open_slurm(const Compute& compute);
  std::unique_ptr<engine::slurm::Tunnel> make_tunnel(const Compute& compute,
                                                     const node::Program& program);

  Parts parts_;
  std::string server_id_;
  std::shared_ptr<engine::slurm::ScaleClaims> claims_ =
      std::make_shared<engine::slurm::ScaleClaims>();
  // The control plane's, by their queues.
  Guarded<std::map<std::string, std::weak_ptr<engine::Engine>>> engines_;
};

// Who this home is among servers that share a cluster; made once.
Result<std::string> server_id(const Home& home);

}  // namespace trainyard::api
