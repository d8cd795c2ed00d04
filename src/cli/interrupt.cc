#include "cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr int kSecondPressMs = 2000;
constexpr int kWakeAgainMs = 20;

sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Wish next_wish(Wish wish, KeyEvent event, bool cancelling) {
  switch (wish) {
    case Wish::none:
      if (event == KeyEvent::time_over) return Wish::none;
      return cancelling ? Wish::detach : Wish::asked;
    case Wish::asked:
      return event == KeyEvent::pressed ? Wish::cancel : Wish::detach;
    case Wish::cancel:
      return event == KeyEvent::pressed ? Wish::detach : Wish::cancel;
    case Wish::detach:
      return Wish::detach;
  }
  return Wish::detach;
}

Interrupts::Interrupts(std::function<void()> first, std::function<void()> wake)
    : first_(std::move(first)), wake_(std::move(wake)) {
  const sigset_t set = interrupt_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  stop_ = Fd(eventfd(0, EFD_CLOEXEC));
  ENSURE(signals_);
  ENSURE(stop_);
  thread_ = std::thread([this] { watch(); });
}

Interrupts::~Interrupts() {
  const uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof one) == 0);
  thread_.join();
  const sigset_t set = interrupt_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::acknowledge_cancel() {
  cancelling_ = true;
  Wish expected = Wish::cancel;
  wish_.compare_exchange_strong(expected, Wish::none);
}

void Interrupts::watch() {
  for (;;) {
    const Wish wish = wish_.load();
    int timeout = -1;
    if (wish == Wish::asked) timeout = kSecondPressMs;
    if (wish == Wish::detach || wish == Wish::cancel) timeout = kWakeAgainMs;
    pollfd fds[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    const int ready = poll(fds, 2, timeout);
    if (fds[1].revents != 0) return;
    if (ready < 0) continue;
    KeyEvent event = KeyEvent::time_over;
    if (ready > 0) {
      signalfd_siginfo info{};
      if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
      event = KeyEvent::pressed;
    }
    // A wish to cancel may have been obeyed meanwhile and is `none` by now: decide from what it is.
    Wish before = wish_.load();
    Wish next = next_wish(before, event, cancelling_.load());
    while (!wish_.compare_exchange_weak(before, next)) {
      next = next_wish(before, event, cancelling_.load());
    }
    if (before == Wish::none && next == Wish::asked) first_();
    if (next == Wish::detach || next == Wish::cancel) wake_();
  }
}

void exit_on_interrupt() {
  struct sigaction action{};
  action.sa_handler = [](int) { _exit(kExitInterrupted); };
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace trainyard::cli
