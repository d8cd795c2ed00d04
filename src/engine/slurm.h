#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/slurm/commands.h"
#include "engine/slurm/patience.h"
#include "engine/slurm/scale_claims.h"
#include "engine/slurm/scale_nodes.h"
#include "engine/slurm/tunnel.h"
#include "model/compute.h"

namespace trainyard::engine {

struct SlurmOptions {
  ComputeSpec compute;
  // Who we are among servers that share a cluster and a user: [A-Za-z0-9_-]+, the same after a
  // restart.
  std::string server_id;
  // The compute's number in that home. Both are in the comment of every job; only jobs with both
  // are ever cancelled, so that computes on one Slurm leave each other's jobs alone.
  int64_t compute_id = 0;
  Clock& clock;
  Log& log;
  // Of what GET /api/v1/node/program answers, in hex. Empty: nodes take what they are given, and
  // keep none for the next job.
  std::string program_sha256;
  std::string server_url;       // Where nodes find us; a tunnel knows better.
  std::string program_path;     // Where nodes may have it already; empty: nowhere.
  std::string ca_pem;           // For an https server that no public authority vouches for.
  std::string scratch;          // A folder on the nodes to work in; empty: ${TMPDIR:-/tmp}.
  seconds reach_patience{120};  // How long a node tries to reach the server before it gives up.
  int window = 500;             // So many of our runs are in Slurm's queue at most.
  slurm::Patience patience;
  slurm::ScalePatience scale_patience;
  // Shared by all targets of a server whose nodes come and go; null: this is the only one.
  std::shared_ptr<slurm::ScaleClaims> claims;
  std::string owner;  // Who claims nodes: this target among them.
  bool paused = false;
  // For what jobs leave in the compute's shared folder (slurm/shelf.h): trainyard itself, a private
  // folder, and what the supervisors of an attempt's nodes are told, with a token of their own.
  fs::path binary;
  fs::path collected;
  std::function<Result<std::vector<Assignment>>(const AttemptId&)> take_over;
  // How Slurm is spoken to: slurm::make_commands(), or a fake. Shared with the shell of its nodes,
  // whose commands may take longer than the engine lives.
  std::shared_ptr<slurm::Commands> commands;
  // How nodes reach a server that listens on loopback alone; null: they need none.
  std::unique_ptr<slurm::Tunnel> tunnel;
};

// A Slurm cluster. One job per attempt, or one place of an array (slurm/batch.h) where several that
// are alike wait to be handed in; found again by its comment and never by Slurm's number,
// which a controller that lost its memory gives out twice. place() queues; sbatch, squeue and
// scancel run on threads of the engine.
//
// - A job that Slurm refuses, or holds for what will never come true: on_gone, refused.
// - A controller that does not answer: everything waits, waits_for() says so, nothing is lost.
// - A tunnel that is broken: nothing is handed in until it is there again.
// - A job that Slurm no longer knows (its controller died right after it accepted it): on_gone. It
//   is not submitted again under the same attempt, for its processes may run on with that attempt's
//   token; the next attempt's token fences them off.
// - A job that ended: on_gone after a moment, for its last report to come in; evicted where Slurm
//   took the node away.
// - With programs that bring nodes up and down, jobs wait in Slurm's queue while their nodes come:
//   see slurm/scaler.h.
// - A job of this compute that nobody knows, or whose attempt is over: cancelled after a grace.
// - A job of the version before, whose comment names no compute: taken up by the engine that knows
//   its attempt, and left alone by all others.
std::unique_ptr<Engine> make_slurm(SlurmOptions options);

}  // namespace trainyard::engine
