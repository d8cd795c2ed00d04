#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard {

// A target that people made: a cluster on an engine. `local` needs none.
struct ComputeSpec {
  std::string name;
  std::string engine = "slurm";  // Or "local": slots of the server's machine.
  // ---- slurm ----
  std::string ssh;        // USER@LOGIN: its commands run there; empty: here.
  std::string partition;  // Empty: Slurm's default.
  std::string account;
  std::string qos;
  std::vector<std::string> sbatch;  // Lines for every job: "--gres=gpu:1", "--constraint=fast".
  std::string setup;                // A shell text run before the supervisor: "module load cuda".
  std::string slurm_conf;           // SLURM_CONF as it was at create; empty: Slurm's default.
  // ---- while the server is away ----
  int64_t outage_seconds = 12 * 3600;  // A supervisor that is cut off for so long stops its ranks.
  int64_t unsent_seconds = 900;        // A job that is done waits for so long to send the rest.
  std::string shared_folder;  // Of nodes and server: what is unsent goes there; empty: none.
  // ---- nodes ----
  int min_nodes = 0;
  int max_nodes = 1;
  int64_t idle_seconds = 1800;            // A node idle for so long goes down.
  std::string vm_size;                    // A row of the size table.
  std::string vm_priority = "dedicated";  // Or "lowpriority".
  std::string node_up;  // A program, with a node's name as its argument; empty: nodes stay up.
  std::string node_down;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("name", self.name);
    f("engine", self.engine);
    f("ssh", self.ssh);
    f("partition", self.partition);
    f("account", self.account);
    f("qos", self.qos);
    f("sbatch", self.sbatch);
    f("setup", self.setup);
    f("slurmConf", self.slurm_conf);
    f("outageSeconds", self.outage_seconds);
    f("unsentSeconds", self.unsent_seconds);
    f("sharedFolder", self.shared_folder);
    f("minNodes", self.min_nodes);
    f("maxNodes", self.max_nodes);
    f("idleSeconds", self.idle_seconds);
    f("vmSize", self.vm_size);
    f("vmPriority", self.vm_priority);
    f("nodeUp", self.node_up);
    f("nodeDown", self.node_down);
  }
  bool operator==(const ComputeSpec&) const = default;
};

struct Compute {
  int64_t id = 0;
  std::string workspace;
  ComputeSpec spec;
  bool paused = false;  // Nothing new is placed there.
  std::string created_by;
  WallTime created{};
};

// The first setting that only a Slurm cluster has; empty: none is set.
std::string slurm_setting(const ComputeSpec& spec);

// Names, numbers in range, words that are known.
Status check_compute(const ComputeSpec& spec);

}  // namespace trainyard
