#include "engine/slurm.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "engine/slurm/book.h"
#include "engine/slurm/job_script.h"

namespace trainyard::engine {
namespace {

using slurm::Book;
using slurm::Job;
using slurm::Node;

constexpr seconds kCountWaiting{5};  // Between two looks at the nodes while a job waits for some.
constexpr seconds kCountIdle{120};
// Over ssh each costs a round trip or three; here one keeps the controller busy.
constexpr int kSubmittersHere = 1;
constexpr int kSubmittersSsh = 4;

class SlurmEngine : public Engine {
 public:
  explicit SlurmEngine(SlurmOptions options)
      : options_(std::move(options)), book_(options_.server_id, patience()) {
    const int submitters = options_.compute.ssh.empty() ? kSubmittersHere : kSubmittersSsh;
    for (int i = 0; i < submitters; ++i) {
      threads_.emplace_back([this](std::stop_token stop) { submit_all(stop); });
    }
    threads_.emplace_back([this](std::stop_token stop) { watch(stop); });
  }
  ~SlurmEngine() override {
    for (std::jthread& thread : threads_) thread.request_stop();
    options_.commands->stop();
  }

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
    return book_.inspect(attempt);
  }
  std::string waits_for(const AttemptId& attempt) override {
    std::lock_guard lock(mutex_);
    return book_.waits_for(attempt, options_.clock.wall());
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

  slurm::Patience patience() const;
  void submit_all(std::stop_token stop);
  void submit(const Assignment& assignment);
  std::string script_of(const Assignment& assignment);
  void watch(std::stop_token stop);
  bool cancel_one();
  void look();
  void count(SteadyTime now);
  void tell();
  // Waits, with the lock, for a change after those seen or for a time.
  void wait(std::unique_lock<std::mutex>& lock, std::stop_token stop,
            std::optional<SteadyTime> until, uint64_t seen);

  const SlurmOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t changes_ = 0;  // Held by mutex_, as are these.
  bool counted_ = false;  // The nodes, once; or they could not be.
  Book book_;

  std::mutex gone_mutex_;
  Gone gone_;  // Held by gone_mutex_.

  // The watcher's alone.
  SteadyTime last_count_{};
  SteadyTime next_count_{};
  bool answered_ = true;
  std::vector<std::jthread> threads_;  // The last: they end before what they use.
};

slurm::Patience SlurmEngine::patience() const {
  slurm::Patience patience = options_.patience;
  // Where nodes come and go, what a partition cannot have now it may have in a while.
  if (!options_.compute.node_up.empty()) patience.never = std::chrono::minutes(10);
  return patience;
}

Capacity SlurmEngine::capacity() const {
  Capacity capacity;
  capacity.nodes = options_.compute.max_nodes;
  capacity.window = options_.window;
  int gpus = 0;
  std::lock_guard lock(mutex_);
  for (const Node& node : book_.nodes()) {
    if (options_.compute.partition.empty() && !node.default_partition) continue;
    capacity.cpus = std::max(capacity.cpus, node.cpus);
    capacity.memory_bytes = std::max(capacity.memory_bytes, node.memory_mb << 20);
    gpus = std::max(gpus, node.gpus);
  }
  capacity.gpus.resize(static_cast<size_t>(gpus));
  std::iota(capacity.gpus.begin(), capacity.gpus.end(), 0);
  return capacity;
}

void SlurmEngine::submit_all(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    const uint64_t seen = changes_;
    if (!counted_) {  // The partition's time limit is needed.
      wait(lock, stop, std::nullopt, seen);
      continue;
    }
    const std::optional<Assignment> assignment = book_.take_submission(options_.clock.steady());
    if (!assignment) {
      wait(lock, stop, book_.next_submit(), seen);
      continue;
    }
    lock.unlock();
    submit(*assignment);
    tell();
  }
}

void SlurmEngine::submit(const Assignment& assignment) {
  const AttemptId attempt = assignment.id();
  const Result<int64_t> number = options_.commands->submit(script_of(assignment));
  if (number) {
    options_.log.info("slurm job submitted", {{"attempt", attempt.str()}, {"number", *number}});
  } else {
    options_.log.warn("slurm job not submitted", {{"attempt", attempt.str()},
                                                  {"target", options_.compute.name},
                                                  {"error", number.error().message}});
  }
  note([&](SteadyTime now) { book_.submitted(attempt, number, now); });
}

std::string SlurmEngine::script_of(const Assignment& assignment) {
  seconds limit{0};
  {
    std::lock_guard lock(mutex_);
    for (const Node& node : book_.nodes()) {
      const bool ours = options_.compute.partition.empty() ? node.default_partition : true;
      if (ours && node.limit) limit = *node.limit;
    }
  }
  slurm::JobPlan plan = slurm::plan_job(assignment, options_.compute, options_.server_id, limit);
  plan.program_sha256 = options_.program_sha256;
  plan.program_path = options_.program_path;
  plan.ca_pem = options_.ca_pem;
  plan.scratch = options_.scratch;
  plan.reach_patience = options_.reach_patience;
  return job_script(plan);
}

void SlurmEngine::watch(std::stop_token stop) {
  count(options_.clock.steady());
  while (!stop.stop_requested()) {
    tell();
    if (cancel_one()) continue;
    std::unique_lock lock(mutex_);
    const uint64_t seen = changes_;
    const SteadyTime now = options_.clock.steady();
    if (book_.anything_waits()) next_count_ = std::min(next_count_, last_count_ + kCountWaiting);
    const SteadyTime next_look = book_.next_look();
    if (now >= next_look || now >= next_count_) {
      lock.unlock();
      if (now >= next_look) look();
      if (now >= next_count_) count(now);
      continue;
    }
    SteadyTime until = std::min(next_look, next_count_);
    if (const auto next_cancel = book_.next_cancel()) until = std::min(until, *next_cancel);
    wait(lock, stop, until, seen);
  }
}

bool SlurmEngine::cancel_one() {
  std::optional<Book::Cancel> cancel;
  {
    std::lock_guard lock(mutex_);
    cancel = book_.take_cancel(options_.clock.steady());
  }
  if (!cancel) return false;
  const Status done = options_.commands->cancel(slurm::name_of(cancel->attempt), cancel->number);
  if (!done && done.error().kind == ErrorKind::cancelled) return false;  // We are being stopped.
  if (done) {
    options_.log.info("slurm job cancelled", {{"attempt", cancel->attempt.str()}});
  } else {
    options_.log.warn("slurm job not cancelled",
                      {{"attempt", cancel->attempt.str()}, {"error", done.error().message}});
  }
  return true;
}

void SlurmEngine::look() {
  const SteadyTime begun = options_.clock.steady();
  const Result<std::vector<Job>> jobs = options_.commands->queue();
  if (!jobs && answered_) {
    options_.log.warn("slurm does not answer",
                      {{"target", options_.compute.name}, {"error", jobs.error().message}});
  }
  answered_ = jobs.has_value();
  note([&](SteadyTime now) { book_.looked(jobs, begun, now); });
}

void SlurmEngine::count(SteadyTime now) {
  last_count_ = now;
  next_count_ = now + kCountIdle;
  Result<std::vector<Node>> nodes = options_.commands->nodes();
  note([&](SteadyTime) {
    counted_ = true;
    if (nodes) book_.counted(*std::move(nodes));
  });
}

void SlurmEngine::tell() {
  std::vector<Book::Told> all;
  {
    std::lock_guard lock(mutex_);
    all = book_.take_gone();
  }
  if (all.empty()) return;
  std::lock_guard lock(gone_mutex_);
  for (const auto& [attempt, going] : all) {
    options_.log.info("slurm job gone", {{"attempt", attempt.str()}, {"why", going.why}});
    if (gone_) gone_(attempt, going);
  }
}

void SlurmEngine::wait(std::unique_lock<std::mutex>& lock, std::stop_token stop,
                       std::optional<SteadyTime> until, uint64_t seen) {
  const auto changed = [&] { return changes_ != seen; };
  if (!until) {
    changed_.wait(lock, stop, changed);
    return;
  }
  const SteadyTime now = options_.clock.steady();
  if (*until > now) changed_.wait_for(lock, stop, *until - now, changed);
}

}  // namespace

std::unique_ptr<Engine> make_slurm(SlurmOptions options) {
  if (!options.commands) {
    options.commands = slurm::make_commands(slurm::command_options(options.compute, {}));
  }
  return std::make_unique<SlurmEngine>(std::move(options));
}

}  // namespace trainyard::engine
