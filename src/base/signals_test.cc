#include "base/signals.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trainyard {
namespace {

TEST_CASE("a signal to end makes the descriptor readable and ends nobody") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    CAPTURE(number);
    const pid_t child = fork();
    if (child == 0) {
      const Result<Fd> arrived = watch_for_end();
      if (!arrived) _exit(1);
      pollfd wait{arrived->get(), POLLIN, 0};
      if (poll(&wait, 1, 0) != 0) _exit(2);
      raise(SIGPIPE);
      raise(number);
      _exit(poll(&wait, 1, 10'000) == 1 ? 0 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

}  // namespace
}  // namespace trainyard
