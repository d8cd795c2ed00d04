#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace trainyard::http {

// A piece of work. `scratch` is the worker's own buffer: what is in it is gone with the next job.
// Shared, because a job goes from queue to thread to parking lot, and the last one ends it.
class Job {
 public:
  virtual ~Job() = default;
  virtual void work(std::span<char> scratch) = 0;
};

// A fixed number of threads and the queue before them. Thread-safe.
class Workers {
 public:
  using Ref = std::shared_ptr<Job>;

  Workers(int threads, size_t queue_max);
  ~Workers();

  // The reserved queue has threads of its own and its own limit: what fills the usual one does not
  // stop it. Threads that take from both do so by turns.
  enum class Queue { usual, reserved };
  // A new request; false when too many wait already.
  [[nodiscard]] bool admit(Ref job, Queue queue = Queue::usual);
  // The next step of a request that was admitted before; their number is bounded by that.
  void go_on(Ref job, Queue queue = Queue::usual);
  // A parked request to look again. Many wake at once when a log grows: they never take all
  // threads, so that a new request does not wait behind them.
  void wake(std::vector<Ref> jobs);

  // Ends the threads; what waits is dropped. After it, jobs handed in are dropped too.
  void stop();

 private:
  enum class Serves { both, reserved };
  void run(Serves serves);
  bool has_work(Serves serves) const;
  void wake_one(Queue queue);
  bool may_wake() const { return !woken_.empty() && wakers_ < wakers_max_; }

  const size_t queue_max_;
  const int wakers_max_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable reserved_ready_;  // Of the threads that serve nothing else.
  struct Waiting {
    Ref job;
    bool admitted = false;  // Counts against queue_max_.
  };
  std::deque<Waiting> requests_;
  std::deque<Ref> reserved_;
  std::deque<Ref> woken_;
  size_t admitted_waiting_ = 0;
  int wakers_ = 0;  // Threads at work on woken jobs.
  unsigned turns_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace trainyard::http
