#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/environments.h"
#include "api/trees.h"
#include "base/clock.h"
#include "base/log.h"
#include "control/control.h"
#include "logs/log_store.h"
#include "store/store.h"

namespace trainyard::api {

// Environments that are built on the compute a workspace names for that, each by a run of its own
// (env/realise_program.h): in the experiment `environments`, with the hash as its tag. Which run
// builds which is written down here and nowhere else: what other runs say of themselves is nothing
// to go by.
class BuildRuns {
 public:
  struct Parts {
    Clock& clock;
    Log& log;
    store::Store& store;
    control::Control& control;
    blob::Store& blobs;
    logs::LogStore& logs;
    Trees& trees;
    std::function<bool()> stopping;  // The server is: a build goes on without it.
  };
  explicit BuildRuns(Parts parts) : parts_(std::move(parts)) {}

  // Waits for it. Nothing where the workspace names no compute. A run that builds it already, or
  // has done so, is taken.
  Result<std::optional<Environments::Made>> build(const Environments::Wanted& wanted,
                                                  env::Watcher& watcher);

 private:
  Result<std::optional<RunId>> find(const std::string& hash);
  Result<RunId> submit(const Environments::Wanted& wanted, const std::string& target);
  Result<std::string> make_snapshot(const Environment& environment);
  Result<Run> wait_for(const RunId& id, env::Watcher& watcher);
  Result<Environments::Made> take(const Run& run, const std::string& hash);

  const Parts parts_;
};

}  // namespace trainyard::api
