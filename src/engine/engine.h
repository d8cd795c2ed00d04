#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/assignment.h"

namespace trainyard::engine {

// What a target has in all, for the scheduler to give out.
struct Capacity {
  int cpus = 0;
  int64_t memory_bytes = 0;
  std::vector<int> gpus;  // Device numbers.
};

enum class Placement {
  unknown,  // Never placed here, or forgotten.
  live,     // Its supervisor is there, or on its way.
  gone,     // Its supervisor has ended and will not report again.
};

// Gets supervisors onto nodes. An engine knows machines; it knows nothing of data, environments or
// ranks. Every call is idempotent in the attempt. Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual Capacity capacity() const = 0;

  // Gets a supervisor going with this assignment. Returns at once; it reports through the API.
  virtual Status place(const Assignment& assignment) = 0;

  // After a restart of the server: takes up again the watch over an attempt that was placed before.
  // A supervisor that died meanwhile leaves journal and spool; a new one is started on them to send
  // what is left and to end the attempt.
  virtual Status recover(const AttemptId& attempt) = 0;

  virtual Placement inspect(const AttemptId& attempt) = 0;

  // Kills the supervisor and all it started, at once. For what no longer answers.
  virtual Status kill(const AttemptId& attempt) = 0;

  // The attempt is over: removes what it left on the node.
  virtual Status release(const AttemptId& attempt) = 0;

  // Called, on a thread of the engine, when a supervisor has ended for good: the caller checks
  // whether its last report came, and if not the attempt is lost.
  using Gone = std::function<void(const AttemptId&, const std::string& why)>;
  virtual void on_gone(Gone gone) = 0;
};

}  // namespace trainyard::engine
