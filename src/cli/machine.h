#pragma once

#include <string>

#include "agent/place.h"
#include "cli/context.h"
#include "model/run_spec.h"

// This machine as one that works for a server elsewhere.
namespace trainyard::cli {

// Makes sure that the place's daemon runs: starts it in the background where none does. A personal
// one gets `token`, over a pipe, and ends by itself when it has been idle for a while. What it says
// against starting is our error.
Status ensure_daemon(const Home& home, const agent::Place& place, const std::string& token,
                     Clock& clock);
// Ends it, if it runs; runs go on.
Status stop_daemon(const agent::Place& place, Clock& clock);

// A person's own machine, as the server elsewhere knows it.
struct OwnMachine {
  std::string key;
  size_t gpus = 0;
};
// Makes this machine known to the server as the caller's own, with a daemon at work.
Result<OwnMachine> own_machine(Context& context, const Place& server);

// `local` under a server elsewhere is this machine: it gets a daemon, and the spec its key. All
// other targets are left as they are.
Status settle_local(Context& context, RunSpec& spec);

}  // namespace trainyard::cli
