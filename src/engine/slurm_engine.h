#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/slurm.h"
#include "engine/slurm/batch.h"
#include "engine/slurm/book.h"
#include "engine/slurm/scaler.h"
#include "engine/slurm/shelf.h"

namespace trainyard::engine {

// What make_slurm() makes: the book, the threads that carry out what it decides (slurm_threads.cc),
// and the scaler.
class SlurmEngine : public Engine {
 public:
  explicit SlurmEngine(SlurmOptions options);
  ~SlurmEngine() override;

  Capacity capacity() const override;
  Status place(const Assignment& assignment) override {
    return change([&](SteadyTime now) { book_.place(assignment, now); });
  }
  Status recover(const AttemptId& attempt) override {
    return change([&](SteadyTime now) { book_.recover(attempt, now); });
  }
  Status kill(const AttemptId& attempt) override {
    return change([&](SteadyTime now) { book_.kill(attempt, now); });
  }
  Status release(const AttemptId& attempt) override {
    return change([&](SteadyTime now) { book_.release(attempt, now); });
  }
  Placement inspect(const AttemptId& attempt) override {
    std::lock_guard lock(mutex_);
    return collecting_.contains(attempt) ? Placement::live : book_.inspect(attempt);
  }
  std::string waits_for(const AttemptId& attempt) override;
  bool may_have_started(const AttemptId& attempt) override;
  NodesSeen nodes() override;
  Outage outage() const override;
  std::shared_ptr<NodeShell> shell() override { return shell_; }
  void pause(bool paused) override {
    if (scaler_) scaler_->pause(paused);
  }
  void on_gone(Gone gone) override {
    std::lock_guard lock(gone_mutex_);
    gone_ = std::move(gone);
  }

 private:
  // The book is changed, and whoever waits for that looks again.
  template <class F>
  Status change(F&& f) {
    note(std::forward<F>(f));
    return {};
  }
  template <class F>
  void note(F&& f) {
    std::lock_guard lock(mutex_);
    std::forward<F>(f)(options_.clock.steady());
    ++changes_;
    changed_.notify_all();
  }

  // A call of Slurm's programs; whoever looks meanwhile sees how long it takes.
  template <class F>
  auto call(F&& f) {
    std::unique_lock lock(mutex_);
    const auto under_way = calls_.insert(options_.clock.steady());
    lock.unlock();
    auto result = std::forward<F>(f)();
    lock.lock();
    calls_.erase(under_way);
    return result;
  }
  // With the lock: why Slurm seems not to answer; empty: it does.
  std::string silence() const;

  slurm::Patience patience() const;
  slurm::ScalerOptions scaler_options();
  void heed_tunnel();
  void submit_all(std::stop_token stop);
  void submit(const std::vector<slurm::JobPlan>& plans);
  slurm::JobPlan plan_of(const Assignment& assignment) const;
  void watch(std::stop_token stop);
  void await_way(std::stop_token stop);
  bool cancel_one();
  void look();
  void count(SteadyTime now);
  void scale();
  void tell();
  void tell_one(const slurm::Book::Told& told);
  void collect_all(std::stop_token stop);
  // Waits, with the lock, for a change after those seen or for a time.
  void wait(std::unique_lock<std::mutex>& lock, std::stop_token stop,
            std::optional<SteadyTime> until, uint64_t seen);

  const SlurmOptions options_;
  const std::string owner_;  // slurm::job_owner()
  std::shared_ptr<NodeShell> shell_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t changes_ = 0;  // Held by mutex_, as are these.
  bool counted_ = false;  // The nodes, once; or they could not be.
  SteadyTime counted_at_{};
  std::optional<SteadyTime> seen_at_;  // When the nodes that we know were counted.
  std::string count_trouble_;          // Why the last count failed; empty: it did not.
  bool count_wanted_ = false;          // Somebody looks at the nodes now.
  std::multiset<SteadyTime> calls_;    // When the calls under way were begun.
  slurm::Book book_;
  // Those of which nodes have left something in the shared folder.
  std::map<AttemptId, Going> collecting_;

  std::mutex gone_mutex_;
  Gone gone_;  // Held by gone_mutex_.

  // The watcher's alone.
  SteadyTime last_count_{};
  SteadyTime next_count_{};
  microseconds count_pause_ = seconds(1);  // Where nodes come and go; more for a busy controller.
  SteadyTime last_scale_{};
  SteadyTime next_scale_{};
  uint64_t scaled_ = 0;  // The changes that were seen then.
  bool answered_ = true;
  std::unique_ptr<slurm::Scaler> scaler_;  // Null: nodes stay up.
  Fd stop_;                                // Readable: what is being collected is left.
  std::unique_ptr<slurm::Shelf> shelf_;    // Null: there is no shared folder.
  std::vector<std::jthread> threads_;      // The last: they end before what they use.
};

}  // namespace trainyard::engine
