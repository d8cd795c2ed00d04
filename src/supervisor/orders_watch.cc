#include "supervisor/orders_watch.h"

#include <poll.h>

#include "wire/urls.h"

namespace trainyard::supervisor {
namespace {

constexpr seconds kWait{30};
constexpr seconds kPause{1};  // After a call that failed: the uplink says how the server is.

}  // namespace

OrdersWatch::OrdersWatch(Clock& clock, http::Address address, std::string token,
                         const AttemptId& attempt, int node, Uplink& uplink)
    : clock_(clock),
      uplink_(uplink),
      client_(address, token),
      server_(client_, attempt, node),
      execs_(clock, {.address = std::move(address),
                     .token = std::move(token),
                     .url = wire::attempt_url(attempt, "/execs/"),
                     .query = "node=" + std::to_string(node)}),
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
      execs_.offer(known.execs);
    } else if (clock_.sleep_until(clock_.steady() + kPause, stop)) {
      break;
    }
  }
  over_ = true;
}

}  // namespace trainyard::supervisor
