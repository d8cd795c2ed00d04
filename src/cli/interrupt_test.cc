#include "cli/interrupt.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <semaphore>

using namespace trainyard::cli;

TEST_CASE("the first Ctrl-C asks, a second in time cancels, otherwise we detach") {
  CHECK(next_wish(Wish::none, KeyEvent::pressed, false) == Wish::asked);
  CHECK(next_wish(Wish::asked, KeyEvent::pressed, false) == Wish::cancel);
  CHECK(next_wish(Wish::asked, KeyEvent::time_over, false) == Wish::detach);
  CHECK(next_wish(Wish::cancel, KeyEvent::time_over, false) == Wish::cancel);
  CHECK(next_wish(Wish::none, KeyEvent::time_over, false) == Wish::none);
}

TEST_CASE("once the run is being canceled, one more Ctrl-C detaches") {
  CHECK(next_wish(Wish::none, KeyEvent::pressed, true) == Wish::detach);
  CHECK(next_wish(Wish::cancel, KeyEvent::pressed, true) == Wish::detach);
  CHECK(next_wish(Wish::detach, KeyEvent::pressed, true) == Wish::detach);
}

TEST_CASE("two real signals become a wish to cancel, a third one to detach") {
  std::counting_semaphore<> asked(0);
  std::counting_semaphore<> woken(0);
  Interrupts interrupts([&] { asked.release(); }, [&] { woken.release(); });
  kill(getpid(), SIGINT);
  asked.acquire();
  CHECK(interrupts.wish() == Wish::asked);
  kill(getpid(), SIGINT);
  woken.acquire();
  CHECK(interrupts.wish() == Wish::cancel);
  woken.acquire();  // Again, until it is obeyed: a wake can come between two calls and be lost.
  interrupts.acknowledge_cancel();
  CHECK(interrupts.wish() == Wish::none);
  kill(getpid(), SIGINT);
  while (interrupts.wish() != Wish::detach) woken.acquire();
  CHECK(interrupts.wish() == Wish::detach);
}
