#include "http/workers.h"

#include <algorithm>
#include <utility>

namespace trainyard::http {

namespace {

constexpr size_t kScratchSize = 256 * 1024;  // Of a thread; untouched pages cost nothing.
constexpr unsigned kWokenTurn = 4;           // Each so many turns the woken go before new requests.
constexpr unsigned kReservedTurn = 3;  // The same of the reserved queue, before the usual one.

}  // namespace

Workers::Workers(int threads, size_t queue_max)
    : queue_max_(queue_max), wakers_max_(std::max(1, threads / 2)) {
  for (int i = 0; i < std::max(1, threads); ++i) {
    threads_.emplace_back([this] { run(Serves::both); });
  }
  threads_.emplace_back([this] { run(Serves::reserved); });
}

Workers::~Workers() { stop(); }

bool Workers::admit(Ref job, Queue queue) {
  {
    std::lock_guard lock(mutex_);
    const bool reserved = queue == Queue::reserved;
    if ((reserved ? reserved_.size() : admitted_waiting_) >= queue_max_) return false;
    if (stopping_) return true;
    if (reserved) {
      reserved_.push_back(std::move(job));
    } else {
      ++admitted_waiting_;
      requests_.push_back({std::move(job), true});
    }
  }
  wake_one(queue);
  return true;
}

void Workers::go_on(Ref job, Queue queue) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (queue == Queue::reserved) {
      reserved_.push_back(std::move(job));
    } else {
      requests_.push_back({std::move(job), false});
    }
  }
  wake_one(queue);
}

void Workers::wake_one(Queue queue) {
  ready_.notify_one();
  if (queue == Queue::reserved) reserved_ready_.notify_one();
}

void Workers::wake(std::vector<Ref> jobs) {
  if (jobs.empty()) return;
  size_t threads = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    for (Ref& job : jobs) woken_.push_back(std::move(job));
    threads = std::min(woken_.size(), static_cast<size_t>(wakers_max_ - wakers_));
  }
  for (size_t i = 0; i < threads; ++i) ready_.notify_one();
}

void Workers::stop() {
  std::deque<Waiting> requests;
  std::deque<Ref> reserved;
  std::deque<Ref> woken;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    // Dropped outside the lock: the end of a job may be long.
    requests.swap(requests_);
    reserved.swap(reserved_);
    woken.swap(woken_);
    admitted_waiting_ = 0;
  }
  ready_.notify_all();
  reserved_ready_.notify_all();
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool Workers::has_work(Serves serves) const {
  if (stopping_ || !reserved_.empty()) return true;
  return serves == Serves::both && (!requests_.empty() || may_wake());
}

void Workers::run(Serves serves) {
  const auto scratch = std::make_unique_for_overwrite<char[]>(kScratchSize);
  std::condition_variable& ready = serves == Serves::both ? ready_ : reserved_ready_;
  std::unique_lock lock(mutex_);
  for (;;) {
    ready.wait(lock, [&] { return has_work(serves); });
    if (stopping_) return;
    const bool both = serves == Serves::both;
    ++turns_;
    const bool woken = both && may_wake() &&
                       ((requests_.empty() && reserved_.empty()) || turns_ % kWokenTurn == 0);
    const bool reserved =
        !woken && !reserved_.empty() && (!both || requests_.empty() || turns_ % kReservedTurn == 0);
    Ref job;
    if (woken) {
      job = std::move(woken_.front());
      woken_.pop_front();
      ++wakers_;
    } else if (reserved) {
      job = std::move(reserved_.front());
      reserved_.pop_front();
    } else {
      job = std::move(requests_.front().job);
      if (requests_.front().admitted) --admitted_waiting_;
      requests_.pop_front();
    }
    lock.unlock();
    job->work({scratch.get(), kScratchSize});
    job.reset();
    lock.lock();
    if (woken) --wakers_;
  }
}

}  // namespace trainyard::http
