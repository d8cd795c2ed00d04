#pragma once

#include <string>

#include "agent/place.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "model/machine.h"

namespace trainyard::agent {

// What this machine says of itself.
MachineFacts machine_facts();

struct RunOptions {
  Place place;
  std::string token;  // A person's, for their own machine; else the place's credential is used.
  fs::path binary;    // What supervisors are started from.
  int ready_fd = -1;  // Gets "ok\n" once it works, or an error as a line of JSON; then closed.
  seconds idle{0};    // Ends after so long without work; 0: never.
};

// Works for the server until SIGTERM, or until it is not wanted there any more: pulls orders,
// carries them out by the local engine, says what it holds. What it started outlives it and is
// taken up again by the next; a supervisor found dead then is taken to have gone with the machine.
// `conflict` where another is at work in the place.
Status run(const RunOptions& options);

}  // namespace trainyard::agent
