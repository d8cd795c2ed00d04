// What a Slurm engine does in its own time: hands in, cancels, looks at the queue and at the nodes.
#include <algorithm>

#include "engine/slurm/job_script.h"
#include "engine/slurm_engine.h"

namespace trainyard::engine {
namespace {

using slurm::Book;
using slurm::Job;
using slurm::Node;

constexpr seconds kCountWaiting{5};  // Between two looks at the nodes while a job waits for some.
constexpr seconds kCountIdle{120};
// Where nodes come and go: while some are up, and while none is.
constexpr seconds kCountOften{1};
constexpr seconds kCountNone{30};
constexpr milliseconds kScalePause{50};  // Between two decisions about nodes.
constexpr int kCountShare = 20;  // A slow answer is a busy controller: one part of so many is ours.

}  // namespace

void SlurmEngine::submit_all(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    const uint64_t seen = changes_;
    if (!counted_) {  // The partition's time limit is needed.
      wait(lock, stop, std::nullopt, seen);
      continue;
    }
    // What waits already goes together; nobody waits for company.
    const std::vector<Assignment> taken = book_.take_submissions(
        options_.clock.steady(), [this](const Assignment& first, const Assignment& next) {
          return slurm::are_alike(plan_of(first), plan_of(next));
        });
    if (taken.empty()) {
      wait(lock, stop, book_.next_submit(), seen);
      continue;
    }
    std::vector<slurm::JobPlan> plans;
    for (const Assignment& one : taken) plans.push_back(plan_of(one));
    lock.unlock();
    submit(plans);
    tell();
  }
}

void SlurmEngine::submit(const std::vector<slurm::JobPlan>& plans) {
  std::vector<AttemptId> attempts;
  for (const slurm::JobPlan& plan : plans) attempts.push_back(plan.attempt);
  const std::string first = attempts.front().str();
  const size_t others = attempts.size() - 1;
  const std::string script = job_script(plans);
  const Result<int64_t> number = call([&] { return options_.commands->submit(script); });
  if (number) {
    options_.log.info("slurm job submitted",
                      {{"attempt", first}, {"others", others}, {"number", *number}});
  } else {
    options_.log.warn("slurm job not submitted", {{"attempt", first},
                                                  {"others", others},
                                                  {"target", options_.compute.name},
                                                  {"error", number.error().message}});
  }
  note([&](SteadyTime now) { book_.submitted(attempts, number, now); });
}

// With the lock.
slurm::JobPlan SlurmEngine::plan_of(const Assignment& assignment) const {
  seconds limit{0};
  for (const Node& node : book_.nodes()) {
    const bool ours = options_.compute.partition.empty() ? node.default_partition : true;
    if (ours && node.limit) limit = *node.limit;
  }
  slurm::JobPlan plan = slurm::plan_job(assignment, options_.compute, owner_, limit);
  plan.program_sha256 = options_.program_sha256;
  plan.program_path = options_.program_path;
  if (options_.tunnel) {
    plan.server_url = options_.tunnel->url();
    plan.says_where = true;
  }
  plan.ca_pem = options_.ca_pem;
  plan.scratch = options_.scratch;
  plan.reach_patience = options_.reach_patience;
  return plan;
}

void SlurmEngine::watch(std::stop_token stop) {
  await_way(stop);
  count(options_.clock.steady());
  while (!stop.stop_requested()) {
    tell();
    await_way(stop);
    if (cancel_one()) continue;
    std::unique_lock lock(mutex_);
    const uint64_t seen = changes_;
    const SteadyTime now = options_.clock.steady();
    if (book_.anything_waits()) next_count_ = std::min(next_count_, last_count_ + kCountWaiting);
    if (count_wanted_) next_count_ = std::min(next_count_, last_count_ + count_pause_);
    const bool wanted = scaler_ && book_.anything_wanted();
    if (wanted || (scaler_ && scaler_->looks_often())) {
      next_count_ = std::min(next_count_, last_count_ + count_pause_);
    }
    const SteadyTime next_look = book_.next_look();
    if (now >= next_look || now >= next_count_) {
      lock.unlock();
      // Jobs after nodes: one that starts in between must not seem to wait for another node.
      const bool counts = now >= next_count_;
      if (counts) count(now);
      if (now >= next_look || (counts && wanted)) look();
      if (scaler_) scale();
      continue;
    }
    // Many changes at once are one.
    if (scaler_ && scaled_ != changes_) {
      next_scale_ = std::min(next_scale_, last_scale_ + kScalePause);
    }
    if (scaler_ && now >= next_scale_) {
      lock.unlock();
      scale();
      continue;
    }
    SteadyTime until = std::min(next_look, next_count_);
    if (scaler_) until = std::min(until, next_scale_);
    if (const auto next_cancel = book_.next_cancel()) until = std::min(until, *next_cancel);
    wait(lock, stop, until, seen);
  }
}

// All goes over one connection: without it nothing is asked.
void SlurmEngine::await_way(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (book_.held() && !stop.stop_requested()) wait(lock, stop, std::nullopt, changes_);
}

bool SlurmEngine::cancel_one() {
  std::optional<Book::Cancel> cancel;
  {
    std::lock_guard lock(mutex_);
    cancel = book_.take_cancel(options_.clock.steady());
  }
  if (!cancel) return false;
  const Status done =
      cancel->index < 0
          ? options_.commands->cancel(slurm::name_of(cancel->attempt), cancel->number)
          : options_.commands->cancel_place(cancel->array, cancel->number, cancel->index);
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
  const Result<std::vector<Job>> jobs = call([&] { return options_.commands->queue(); });
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
  Result<std::vector<Node>> nodes = call([&] { return options_.commands->nodes(); });
  const SteadyTime end = options_.clock.steady();
  count_pause_ = std::max<microseconds>((end - now) * kCountShare, kCountOften);
  if (scaler_) {
    if (nodes) scaler_->saw(*nodes, now);
    next_count_ = end + kCountNone;
  }
  const bool failed = !nodes && nodes.error().kind != ErrorKind::cancelled;
  if (failed) next_count_ = end + kCountWaiting;
  note([&](SteadyTime) {
    counted_ = true;
    counted_at_ = end;
    if (nodes) seen_at_ = now;
    count_wanted_ = false;
    count_trouble_ = failed ? nodes.error().message : std::string();
    if (nodes) book_.counted(*std::move(nodes));
  });
}

void SlurmEngine::scale() {
  std::vector<slurm::ScaleWant> wants;
  last_scale_ = options_.clock.steady();
  {
    std::lock_guard lock(mutex_);
    scaled_ = changes_;
    if (!book_.away().empty()) {
      next_scale_ = options_.clock.steady() + kCountOften;
      return;  // What is known of jobs and nodes may long be otherwise.
    }
    wants = book_.wants();
  }
  next_scale_ = scaler_->step(wants);
}

void SlurmEngine::tell() {
  std::vector<Book::Told> all;
  {
    std::lock_guard lock(mutex_);
    all = book_.take_gone();
  }
  for (const Book::Told& told : all) {
    const auto& [attempt, going] = told;
    // What a person has cancelled is not ended otherwise by what it left.
    if (shelf_ && !going.refused && shelf_->has(attempt)) {
      note([&](SteadyTime) { collecting_.emplace(attempt, going); });
    } else {
      tell_one(told);
    }
  }
}

void SlurmEngine::tell_one(const Book::Told& told) {
  const auto& [attempt, going] = told;
  options_.log.info("slurm job gone", {{"attempt", attempt.str()}, {"why", going.why}});
  std::lock_guard lock(gone_mutex_);
  if (gone_) gone_(attempt, going);
}

void SlurmEngine::collect_all(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return !collecting_.empty(); });
    if (collecting_.empty()) return;
    Book::Told told = *collecting_.begin();
    lock.unlock();
    const Result<std::vector<Assignment>> nodes = options_.take_over(told.first);
    // `conflict`: the attempt is over, its end came in by itself.
    if (!nodes && nodes.error().kind == ErrorKind::conflict) shelf_->discard(told.first);
    const Status done = nodes ? shelf_->collect(*nodes) : std::unexpected(nodes.error());
    if (!done && done.error().kind == ErrorKind::cancelled) return;
    if (!done) told.second.why += "; " + done.error().message;
    note([&](SteadyTime) { collecting_.erase(told.first); });
    tell_one(told);
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

}  // namespace trainyard::engine
