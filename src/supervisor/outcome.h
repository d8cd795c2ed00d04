#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/report.h"

namespace trainyard::supervisor {

// Why we stopped the ranks ourselves.
struct Stop {
  EndCause cause = EndCause::canceled;
  std::string text;  // A plain sentence.
  bool operator==(const Stop&) const = default;
};

// Why the ranks never ran.
struct PrepareFailure {
  EndCause cause = EndCause::prepare_failed;
  int exit_code = 1;
  std::string text;
};

// All that is known of an attempt when it is over.
struct Facts {
  int ranks = 1;
  bool ranks_started = false;
  bool all_dead = false;        // Seen by a supervisor: every exit there was is in `exits`.
  std::vector<RankExit> exits;  // In the order in which they happened.
  std::optional<Stop> stop;
  std::optional<PrepareFailure> prepare_failure;
  std::string lost;           // Why it counts as lost, where it does.
  std::string outputs;        // Their tree.
  std::string outputs_error;  // Why they were not kept.
  std::string logs_error;     // Why the logs are not whole.
  std::string note;           // What the first failure's container says of its end.
  std::string last_lines;     // Of the first rank to fail.
  std::string exception;      // Of the same, where it is Python's.
  std::string node;           // Its name, of several ranks; empty: there is one rank.
  double cpu_seconds = 0;
  int64_t memory_peak_bytes = 0;
};

// What the attempt came to. No I/O.
AttemptEnd conclude(const Facts& facts);

// The first rank to fail by itself.
const RankExit* first_failure(const Facts& facts);

// "rank 2 exited with code 3", "rank 0 was killed by signal 9 (SIGKILL)".
std::string describe(const RankExit& exit);

}  // namespace trainyard::supervisor
