#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/report.h"
#include "model/run_spec.h"

namespace trainyard {

//   not_started ─ queued ─ provisioning ─ preparing ─ starting ─ running ─ finalizing ─ completed
//                   ▲           │             │           │         │          │        failed
//                   └───────────┴─ lost before user code ran        │          │        canceled
//   cancel_requested: from provisioning on, until the attempt has ended.
//   An attempt that ended for a cause its run is to be tried again for goes back to queued.
//   An interactive run has no attempt: not_started ─ running ─ a final status.
enum class RunStatus {
  not_started,
  queued,
  provisioning,
  preparing,
  starting,
  running,
  finalizing,
  cancel_requested,
  completed,
  failed,
  canceled,
};
// The contract's words: "NotStarted", "Queued", …
std::string_view to_string(RunStatus status);
Result<RunStatus> run_status_from(std::string_view name);
// The same for what a person typed.
Result<RunStatus> run_status_in_any_case(std::string_view word);
bool is_final(RunStatus status);

// What decides a run's next step, and nothing else.
struct RunLife {
  RunStatus status = RunStatus::not_started;
  int attempt = 0;     // The newest; 0: none yet.
  int lost_early = 0;  // Attempts lost before user code ran; they are made again.
  int retries = 0;     // Attempts made again by `retry`.
  RetryPolicy retry;
  bool interactive = false;  // A program elsewhere carries it.
  bool cancel_asked = false;
  std::optional<int> exit_code;  // Set with a final status.
  // Why it failed or was canceled; empty for completed. Set before its end where a cancel has a
  // reason of its own, or the script called run.fail(): that then is the run's.
  std::string error;

  bool operator==(const RunLife&) const = default;
};

// An attempt may be lost this often before user code ran; then the run fails.
inline constexpr int kLostEarlyMax = 3;

struct Enqueued {};
struct Claimed {};  // The scheduler gives it its place: the next attempt begins.
struct PlaceFailed {
  int attempt = 0;
  std::string why;
  bool for_good = false;  // The target will not have it, ever.
};
struct Reported {
  int attempt = 0;
  ReportKind kind = ReportKind::preparing;
};
struct Ended {
  int attempt = 0;
  AttemptEnd end;
};
struct CancelAsked {
  std::string by;
  std::string why = {};  // The run's reason; empty: that it was canceled by `by`.
};
struct Unprepared {  // What it needs could not be made, while it waited for that in the queue.
  std::string why;
};
struct BegunOutside {};  // An interactive run's program has begun.
struct EndedOutside {    // And said how it ended.
  RunStatus status = RunStatus::completed;
  std::string error;
};
using RunEvent = std::variant<Enqueued, Claimed, PlaceFailed, Reported, Ended, CancelAsked,
                              Unprepared, BegunOutside, EndedOutside>;

enum class RunAction {
  place,         // Ask the engine for the newest attempt's nodes.
  order_cancel,  // Tell the supervisor, by its orders.
  requeue,       // Wake the scheduler: the run waits again.
  release,       // The newest attempt is over: give its resources back, forget its placement.
};

struct Step {
  RunLife life;
  std::vector<RunAction> actions;
};

// The whole life of a run, with no I/O in it: what it becomes when `event` happens, and what the
// caller must then do. `conflict` when the event does not fit: a stale attempt's report (the fence
// against orphans), anything after a final status.
Result<Step> advance(const RunLife& life, const RunEvent& event);

}  // namespace trainyard
