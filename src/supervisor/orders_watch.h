#pragma once

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "client/attempt.h"
#include "client/exec.h"
#include "supervisor/uplink.h"

namespace trainyard::supervisor {

// Waits at the server for its orders, on a thread and a connection of its own, so that they are
// heard at once and not with the next heartbeat. Ends by its destructor.
class OrdersWatch {
 public:
  OrdersWatch(Clock& clock, http::Address address, std::string token, const AttemptId& attempt,
              int node, Uplink& uplink);
  ~OrdersWatch();

  // From now on commands are run beside the ranks (`node exec`).
  void open_execs(client::ExecSetting setting) { execs_.open(std::move(setting)); }

 private:
  void run(std::stop_token stop);

  Clock& clock_;
  Uplink& uplink_;
  http::Client client_;
  client::AttemptApi server_;
  client::ExecRunner execs_;
  std::atomic<bool> over_{false};
  std::jthread thread_;
};

}  // namespace trainyard::supervisor
