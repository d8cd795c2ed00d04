#include "supervisor/orders_watch.h"

#include <poll.h>

namespace trainyard::supervisor {
namespace {

constexpr seconds kWait{30};
constexpr seconds kPause{1};  // After a call that failed: the uplink says how the server is.

}  // namespace

OrdersWatch::OrdersWatch(Clock& clock, http::Address address, std::string token, AttemptId attempt,
                         Uplink& uplink)
    : clock_(clock),
      uplink_(uplink),
      client_(std::move(address), std::move(token)),
      server_(client_, std::move(attempt)),
      thread_([this](std::stop_token stop) { run(stop); }) {}

OrdersWatch::~OrdersWatch() {
  thread_.request_stop();
  // Again and again: the thread may be just about to begin a call.
  while (!over_) {
    client_.interrupt();
    poll(nullptr, 0, 1);
  }
}

void OrdersWatch::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const Result<Orders> orders = server_.orders(Orders{}, kWait);
    if (orders && orders->cancel) {
      uplink_.cancel_seen();
      break;
    }
    if (!orders && clock_.sleep_until(clock_.steady() + kPause, stop)) break;
  }
  over_ = true;
}

}  // namespace trainyard::supervisor
