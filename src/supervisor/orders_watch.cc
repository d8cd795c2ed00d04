#include "supervisor/orders_watch.h"

#include <poll.h>

namespace trainyard::supervisor {
namespace {

constexpr seconds kWait{30};
constexpr seconds kPause{1};  // After a call that failed: the uplink says how the server is.

}  // namespace

OrdersWatch::OrdersWatch(Clock& clock, http::Address address, std::string token, AttemptId attempt,
                         int node, Uplink& uplink)
    : clock_(clock),
      uplink_(uplink),
      client_(std::move(address), std::move(token)),
      server_(client_, std::move(attempt), node),
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
  Orders known;
  // After a word to stop there is nothing more to hear.
  while (!stop.stop_requested() && !known.cancel && known.stop.empty()) {
    const Result<Orders> orders = server_.orders(known, kWait);
    if (orders) {
      known = *orders;
      uplink_.orders_seen(known);
    } else if (clock_.sleep_until(clock_.steady() + kPause, stop)) {
      break;
    }
  }
  over_ = true;
}

}  // namespace trainyard::supervisor
