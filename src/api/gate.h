#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/environments.h"
#include "base/log.h"
#include "control/control.h"
#include "logs/log_store.h"
#include "store/run_rows.h"

namespace trainyard::api {

// Who looks after the runs that are held for their environments (Run::held): has these made, gives
// every run the log of its build, and lets it go, or fail, when that is over. What it knows is in
// the database and on the shelf: after a restart it goes on from there.
class Gate {
 public:
  struct Parts {
    Log& log;
    store::Store& store;
    control::Control& control;
    logs::LogStore& logs;
    Environments& environments;
    std::function<void(const RunId&)> printed;  // A file of the run has grown.
  };
  explicit Gate(Parts parts) : parts_(std::move(parts)) {}

  void start();  // From now on a thread makes the rounds.
  void stop();   // Who is held stays so.

  // There is a run more to look after.
  void add();
  // An environment is further. Costs nothing while nobody is held.
  void changed();

  // One round; start() has them made. False: nobody is held.
  Result<bool> round();

 private:
  struct Sent {
    int64_t build = 0;
    uint64_t bytes = 0;
  };
  void look_after(const std::string& hash, const std::vector<RunId>& runs);
  Result<Environments::Stand> stand(const RunId& first, uint64_t log_from);
  void send_log(const Environments::Stand& stand, uint64_t from, const std::vector<RunId>& runs);
  void keep_logs(const std::vector<RunId>& runs);
  Status send(const RunId& run, const Sent& sent, std::string_view bytes);
  void run(const std::stop_token& stop);

  const Parts parts_;
  std::map<RunId, Sent> sent_;    // One thread's.
  std::atomic<bool> busy_{true};  // Somebody is held, as far as we know.
  std::mutex mutex_;
  std::condition_variable_any rung_;
  bool ringing_ = false;  // Held by mutex_.
  std::jthread thread_;
};

}  // namespace trainyard::api
