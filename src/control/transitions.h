#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/db.h"
#include "model/run_state.h"
#include "store/run_rows.h"

namespace trainyard::control {

// What the world must be told once a change is committed.
struct Applied {
  AttemptId attempt;  // The run and its newest attempt.
  std::string queue;
  std::vector<RunAction> actions;
  std::vector<RunId> children;  // Ended with it, and theirs.

  bool has(RunAction action) const;
};

struct Moment {
  WallTime at{};
  std::string text;  // Of the event, for people; may be empty.
};

// Takes a run through `event`: what advance() decides, its events, its row. Nothing but the
// database changes here; the actions are the caller's, after the commit.
Result<Applied> apply(db::Transaction& transaction, store::RunHead& head, const RunEvent& event,
                      const Moment& moment);

// A run that was held is one of its queue as the others are.
Result<Applied> let_go_of(db::Transaction& transaction, store::RunHead& head, WallTime now);

// The fence: `conflict` unless this is the run's newest attempt and it has not ended.
Status check_live(const store::RunHead& head, const AttemptId& attempt);

// Ends an attempt as lost; nothing when it is not live any more.
struct Loss {
  AttemptId attempt;
  std::string why;
  WallTime at{};
  bool placed = true;  // false: the engine never took it.
  bool evicted = false;
  bool refused = false;
};
Result<std::optional<Applied>> apply_loss(db::Transaction& transaction, const Loss& loss);

}  // namespace trainyard::control
