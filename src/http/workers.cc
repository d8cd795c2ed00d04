#include "http/workers.h"

#include <algorithm>
#include <utility>

namespace trainyard::http {

namespace {

constexpr size_t kScratchSize = 256 * 1024;  // Of a thread; untouched pages cost nothing.
constexpr unsigned kWokenTurn = 4;           // Each so many turns the woken go before new requests.

}  // namespace

Workers::Workers(int threads, size_t queue_max)
    : queue_max_(queue_max), wakers_max_(std::max(1, threads / 2)) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

bool Workers::admit(Ref job) {
  {
    std::lock_guard lock(mutex_);
    if (admitted_waiting_ >= queue_max_) return false;
    if (stopping_) return true;
    ++admitted_waiting_;
    requests_.push_back({std::move(job), true});
  }
  ready_.notify_one();
  return true;
}

void Workers::go_on(Ref job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    requests_.push_back({std::move(job), false});
  }
  ready_.notify_one();
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
  std::deque<Ref> woken;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    // Dropped outside the lock: the end of a job may be long.
    requests.swap(requests_);
    woken.swap(woken_);
    admitted_waiting_ = 0;
  }
  ready_.notify_all();
  for (std::jthread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Workers::run() {
  const auto scratch = std::make_unique_for_overwrite<char[]>(kScratchSize);
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stopping_ || !requests_.empty() || may_wake(); });
    if (stopping_) return;
    const bool woken = may_wake() && (requests_.empty() || ++turns_ % kWokenTurn == 0);
    Ref job;
    if (woken) {
      job = std::move(woken_.front());
      woken_.pop_front();
      ++wakers_;
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
