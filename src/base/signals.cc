#include "base/signals.h"

#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>

namespace trainyard {

Result<Fd> watch_for_end() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Fd arrived(::signalfd(-1, &signals, SFD_CLOEXEC));
  if (!arrived) return fail_errno(errno, "watch for signals");
  return arrived;
}

}  // namespace trainyard
