#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/house.h"
#include "env/shelf.h"
#include "wire/json.h"

namespace trainyard::api {

struct CollectorOptions {
  // What nothing refers to stays this long after it was last written or asked for: a client that
  // was told "this blob is here" may still name it in a submission.
  seconds grace = std::chrono::hours(24);
  seconds every = std::chrono::hours(6);     // Between two collections; 0: only when asked for.
  seconds first = std::chrono::minutes(10);  // After the start: supervisors report first.
  milliseconds busy_retry = seconds(60);     // A backup or a check was under way.
};

// Garbage collection: removes blobs, run folders and realised environments that nothing refers to.
// Mark and sweep beside writers: marks every tree that a row, a packed environment or a pin names,
// then removes what is unmarked and older than the grace period (docs/decisions/collection.md).
// One collection at a time, and none beside a backup or a check. A killed one leaves nothing
// half-done. Thread-safe.
class Collector {
 public:
  Collector(House& house, const CollectorOptions& options);
  ~Collector();

  // From now on a thread collects, at its times and when asked.
  void start();
  void stop();

  enum class Mode { remove, dry_run };
  // Asks for a collection; `conflict` while one, a backup or a check is under way.
  Status begin(Mode mode);
  // {"running", "dryRun", "phase", "looked", "removed", "bytes", "report", "error"}: of the
  // collection under way, else of the last one that was asked for.
  wire::Json state();
  // Removes rows and folders of runs that nobody can restore any more, in the background.
  void purge_soon();
  // Ends a collection that nobody asked for, or a purge, so that a backup need not wait for it; a
  // purge goes on later. True: one was under way.
  bool interrupt();

  // Collects now, on this thread; what start() has done.
  Result<wire::Json> collect(Mode mode, const std::stop_token& stop);

 private:
  struct Progress {
    bool running = false;
    bool asked = false;
    Mode mode = Mode::remove;
    std::string phase;
    uint64_t looked = 0;
    uint64_t removed = 0;
    uint64_t bytes = 0;
    wire::Json report;
    std::optional<Error> error;
  };
  class Pass;

  void run(const std::stop_token& stop);
  void run_once(Mode mode, const std::stop_token& stop);
  bool purge_once(const std::stop_token& stop);
  Status check_clock(WallTime file_now);

  House& house_;
  const CollectorOptions options_;
  Guarded<Progress> progress_;
  std::mutex mutex_;
  std::condition_variable_any rung_;
  std::optional<Mode> wanted_;                // Held by mutex_.
  std::optional<SteadyTime> purge_at_;        // Held by mutex_.
  bool purging_ = false;                      // Held by mutex_: purge_once() is under way.
  std::stop_source current_;                  // Held by mutex_: of the collection under way.
  std::optional<microseconds> clock_offset_;  // Files' time less steady time, when last looked at.
  SteadyTime distrust_until_{};               // The clock was set: ages of files mean nothing.
  std::jthread thread_;
};

}  // namespace trainyard::api
