#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/fd.h"

namespace trainyard::http {

// One thread's wait for many descriptors, for time and for work posted to it: Asio behind a plain
// face. All but post() and stop() is for the thread in run().
class Loop {
 public:
  Loop();
  ~Loop();

  void run();   // Until stop().
  void stop();  // Any thread.
  // Runs `work` on the loop's thread, soon. Any thread.
  void post(std::function<void()> work);
  void after(milliseconds delay, std::function<void()> work);

  // For what is read and used up within one callback, so that a connection needs no buffer.
  std::span<char> scratch() { return {scratch_.get(), kScratchSize}; }

 private:
  friend class Watch;
  static constexpr size_t kScratchSize = 64 * 1024;
  struct Context;
  std::unique_ptr<Context> context_;
  std::unique_ptr<char[]> scratch_;
};

// A descriptor and its readiness. Each call waits once; `work` is dropped when the watch is closed.
class Watch {
 public:
  Watch(Loop& loop, Fd fd);
  ~Watch();

  // -1 when closed.
  int fd() const { return fd_; }
  void when_readable(std::function<void()> work);
  void when_writable(std::function<void()> work);
  void close();

 private:
  struct Descriptor;
  int fd_;
  std::unique_ptr<Descriptor> descriptor_;
};

}  // namespace trainyard::http
