#include <poll.h>
#include <unistd.h>

#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

// On the server's own machine the folder's lock keeps a second supervisor out, and a server that is
// away must not hold the run up.
constexpr seconds kClaimPatience{1};
constexpr milliseconds kClaimLook{100};

}  // namespace

// The first supervisor that reports for a node has claimed it, and another one with the same
// assignment is refused: user code must not run twice at once. So nothing of the user's is started
// before the server has answered.
Status claim_attempt(Context& context) {
  const bool here = !context.server().unix_socket.empty();
  const SteadyTime until = context.clock.steady() + kClaimPatience;
  while (!context.uplink.answered() && !context.stops_early()) {
    if (here && context.uplink.unreachable() && context.clock.steady() >= until) break;
    pollfd polled[2] = {{context.wake_fd, POLLIN, 0}, {context.signal_fd, POLLIN, 0}};
    poll(polled, 2, static_cast<int>(kClaimLook.count()));
    uint64_t count = 0;
    if (polled[0].revents != 0 && read(context.wake_fd, &count, sizeof count) < 0) continue;
  }
  return {};
}

}  // namespace trainyard::supervisor
