#pragma once

#include <cstdint>

#include "runtime/program.h"

namespace trainyard::runtime {

// What init and supervisor say to each other, a packet each. They are one binary and one fork
// apart, so a plain struct will do.
enum class Order : int32_t {
  start,            // All ranks.
  terminate_first,  // SIGTERM to the first process of each rank that runs.
  terminate_group,  // SIGTERM to the rest of the process group of each rank that runs.
  kill_all,         // SIGKILL to everything, at once.
};

enum class Notice : int32_t {
  ready,         // The namespace stands; init waits for `start`.
  not_isolated,  // It could not be made; init has gone. `number` is the errno.
  started,       // All ranks run.
  start_failed,  // `rank`, `step`, `number`; what was started before it is killed.
  rank_ended,    // `rank`, `number`: a wait status.
  sample,        // Usage so far.
  all_dead,      // Nothing is left, usage is final; init exits.
};

struct OrderPacket {
  Order order = Order::start;
};

struct NoticePacket {
  Notice notice = Notice::ready;
  int32_t rank = -1;
  int32_t number = 0;
  StartStep step = StartStep::none;
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;
  int64_t memory_peak_bytes = 0;
};

}  // namespace trainyard::runtime
