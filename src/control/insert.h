#pragma once

#include <string>
#include <string_view>

#include "control/control.h"
#include "control/transitions.h"

namespace trainyard::control {

// A new run's rows: itself, its spec, its first events. For submissions and for the children that
// scripts make. One that waits is queued, an interactive one runs.
struct Insertion {
  const Submission& submission;
  std::string_view spec_json;
  std::string_view spec_hash;
  store::KnownSnapshot snapshot;
  std::string reason;     // Why it waits.
  std::string held = {};  // Run::held.
  WallTime now{};
};
struct Added {
  Run run;  // Without its spec.
  Applied applied;
};
// not_found: the workspace, the parent or a secret it names.
Result<Added> insert(db::Transaction& transaction, const Insertion& insertion);

}  // namespace trainyard::control
