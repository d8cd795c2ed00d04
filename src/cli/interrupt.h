#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/fd.h"

namespace trainyard::cli {

// What Ctrl-C at a stream comes to.
enum class Wish {
  none,
  asked,   // Pressed once: a second one within two seconds cancels.
  detach,  // The two seconds are over, or the run is being canceled already.
  cancel,
};
enum class KeyEvent { pressed, time_over };

// Decides; `cancelling` is set once the run was asked to stop.
Wish next_wish(Wish wish, KeyEvent event, bool cancelling);

// Outside of a stream Ctrl-C ends us at once, by exit_on_interrupt(). While
// one of these lives, it waits for SIGINT on a thread of its own. Made before other threads
// are, which inherit the blocked signal.
class Interrupts {
 public:
  // `first` is called when it is pressed first; `wake` again and again, until acknowledge(), once
  // there is a wish to detach or cancel. Both on that thread.
  Interrupts(std::function<void()> first, std::function<void()> wake);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  Wish wish() const { return wish_.load(); }
  // The wish to cancel was obeyed; one more Ctrl-C detaches.
  void acknowledge_cancel();

 private:
  void watch();

  std::function<void()> first_;
  std::function<void()> wake_;
  std::atomic<Wish> wish_ = Wish::none;
  std::atomic<bool> cancelling_ = false;
  Fd signals_;
  Fd stop_;
  std::thread thread_;
};

// Outside of a stream, Ctrl-C ends us at once with 130.
void exit_on_interrupt();

}  // namespace trainyard::cli
