#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/compute.h"
#include "wire/json.h"

// The targets that people made, of each workspace. A size that a spec names is one of
// store/vm_sizes.h, and kept as it is spelled there.
namespace trainyard::store {

Result<std::vector<Compute>> list_computes(db::Db& db, std::string_view workspace);  // By name.
// Those of every workspace, oldest first: for who carries runs there.
Result<std::vector<Compute>> all_computes(db::Db& db);
Result<Compute> load_compute(db::Db& db, std::string_view workspace,
                             std::string_view name);  // not_found, with a guess.

struct ComputeMade {
  Compute compute;
  bool made = false;  // false: it was there already, with this very spec.
};
// `conflict` when there is one of this name with another spec: it says in what they differ.
Result<ComputeMade> insert_compute(db::Transaction& transaction, std::string_view workspace,
                                   ComputeSpec spec, std::string_view by, WallTime now);
// `changes` holds fields of a spec by their names. Name and engine stay; where the cluster is
// (ssh, slurmConf) may change only while no run is there (`conflict`).
Result<Compute> change_compute(db::Transaction& transaction, std::string_view workspace,
                               std::string_view name, const wire::Json& changes);
Result<Compute> pause_compute(db::Transaction& transaction, std::string_view workspace,
                              std::string_view name, bool paused);
// `conflict` while a run waits or is live there.
Status delete_compute(db::Transaction& transaction, std::string_view workspace,
                      std::string_view name);

// Runs of a queue (queue_of() in model/run_spec.h) that are not over, interactive ones aside.
struct TargetRuns {
  int64_t queued = 0;
  int64_t live = 0;
  std::string first;  // The oldest of them.
};
Result<TargetRuns> count_runs_on(db::Db& db, std::string_view queue);

}  // namespace trainyard::store
