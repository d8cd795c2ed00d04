#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/guarded.h"
#include "model/run.h"

namespace trainyard::api {

// What followers and appends ask of a run again and again.
struct Glance {
  int64_t version = 0;
  RunStatus status = RunStatus::not_started;
  std::string reason;
  std::string error;
  std::optional<int> exit_code;
  int attempt = 0;
  int ranks = 1;
  bool warned = false;  // The run has warnings.

  bool final() const { return is_final(status); }
};
Glance glance_of(const Run& run);

// `conflict` unless this is the attempt that may write now: the newest of its run, placed and not
// over.
Status check_live(const Glance& glance, const AttemptId& attempt);

// Glances kept in memory until their run changes, so that a line of console or a woken follower
// costs no look into the database. What waits is always looked up: its reason changes with the runs
// before it. Thread-safe.
class RunWatch {
 public:
  using Look = std::function<Result<Run>(const RunId&)>;
  explicit RunWatch(Look look) : look_(std::move(look)) {}

  // `id` must be a whole one.
  Result<std::shared_ptr<const Glance>> glance(const RunId& id);
  // Is a glance at it in memory? Then it is the whole id of a run.
  bool knows(const RunId& id);
  void changed(const RunId& id);
  void all_changed();

 private:
  struct Kept {
    // Shared: handed to many readers, replaced while some still look at it.
    std::unordered_map<RunId, std::shared_ptr<const Glance>> glances;
    // Grows with every change: what was looked up before one is not kept after it.
    uint64_t changes = 0;
  };

  Look look_;
  Guarded<Kept> kept_;
};

}  // namespace trainyard::api
