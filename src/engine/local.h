#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/home.h"
#include "base/log.h"
#include "engine/engine.h"

namespace trainyard::engine {

struct LocalOptions {
  Home home;
  Clock& clock;
  Log& log;
  fs::path binary;  // Started as `BINARY supervise --folder HOME/node/RUN.N`.
  // Completes what the supervisor of one node of an attempt is given; may be empty.
  std::function<void(Assignment&)> prepare = {};
};

// This machine. A supervisor is a process of its own session in a folder of its own, and outlives
// us. When one dies before its attempt is over, another is started on the same folder to end it, up
// to three times; then what is left of it is killed here and it counts as gone. An attempt of
// several nodes has a supervisor and a folder for each, and is gone when all of them are.
Result<std::unique_ptr<Engine>> make_local(LocalOptions options);

}  // namespace trainyard::engine
