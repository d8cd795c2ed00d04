#include "control/reasons.h"

#include <doctest/doctest.h>

using namespace trainyard;
using control::queued_reason;
using control::QueueView;
using control::reason_of;

namespace {

constexpr int64_t kReasonsGb = int64_t{1} << 30;

QueueView view() { return {.capacity = {.cpus = 2, .memory_bytes = 24 * kReasonsGb}}; }

}  // namespace

TEST_CASE("a queued run says what it lacks, in numbers") {
  QueueView now = view();
  now.cpus_used = 1;
  now.position = 3;
  CHECK(queued_reason({.cpus = 2}, now) == "waits for 2 CPUs: 1 free of 2; position 3");
  now.cpus_used = 2;
  now.position = 1;
  CHECK(queued_reason({.cpus = 1}, now) == "waits for 1 CPU: 0 free of 2; position 1");
  now.memory_used_bytes = 21 * kReasonsGb;
  CHECK(queued_reason({.cpus = 1, .memory_bytes = 8 * kReasonsGb}, now) ==
        "waits for 1 CPU: 0 free of 2 and 8.0 GB of memory: 3.0 GB free of 24 GB; position 1");
  now.cpus_used = 0;
  CHECK(queued_reason({.cpus = 1, .memory_bytes = 8 * kReasonsGb}, now) ==
        "waits for 8.0 GB of memory: 3.0 GB free of 24 GB; position 1");
}

TEST_CASE("a queued run that lacks nothing says who is before it") {
  QueueView now = view();
  CHECK(queued_reason({.cpus = 1}, now) == "is about to start; position 1");
  now.position = 2;
  CHECK(queued_reason({.cpus = 1}, now) == "waits for its turn behind 1 run; position 2");
  now.position = 4;
  CHECK(queued_reason({.cpus = 1}, now) == "waits for its turn behind 3 runs; position 4");
}

TEST_CASE("a full disk is named before all else") {
  QueueView now = view();
  now.disk_full = true;
  CHECK(queued_reason({.cpus = 9}, now) ==
        "waits for space: the disk of the home is full; position 1");
}

TEST_CASE("more given out than there is reads as none free") {
  QueueView now = view();
  now.cpus_used = 5;
  CHECK(queued_reason({.cpus = 1}, now) == "waits for 1 CPU: 0 free of 2; position 1");
}

TEST_CASE("every status but running and completed has a sentence") {
  for (int i = 0; i <= static_cast<int>(RunStatus::canceled); ++i) {
    Run run;
    run.life.status = static_cast<RunStatus>(i);
    if (is_final(run.life.status) && run.life.status != RunStatus::completed) run.life.error = "x";
    const bool quiet =
        run.life.status == RunStatus::running || run.life.status == RunStatus::completed;
    CAPTURE(to_string(run.life.status));
    CHECK(reason_of(run).empty() == quiet);
  }
  Run run;
  run.life.status = RunStatus::starting;
  run.spec.processes_per_node = 4;
  CHECK(reason_of(run) == "its 4 processes are being started");
}
