#pragma once

#include <string>

#include "engine/engine.h"
#include "model/run.h"

// What a run waits for or failed of, in words and numbers. Pure: computed when somebody reads.
namespace trainyard::control {

// The machine and the queue as a waiting run sees them.
struct QueueView {
  engine::Capacity capacity;
  int cpus_used = 0;
  int64_t memory_used_bytes = 0;
  size_t gpus_free = 0;
  int slots_free = 0;
  int64_t position = 1;    // 1: the next one.
  bool paused = false;     // By an admin.
  bool disk_full = false;  // Nothing is started while it is.
};

// "waits for 2 CPUs: 1 free of 2; position 3"
std::string queued_reason(const Resources& wants, const QueueView& view, int nodes = 1);
// Of a run that is not queued: a plain sentence; empty where there is nothing to say.
std::string reason_of(const Run& run);

}  // namespace trainyard::control
