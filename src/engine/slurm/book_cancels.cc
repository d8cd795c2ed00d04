#include <algorithm>

#include "engine/slurm/book.h"

// What of a book is about jobs that are cancelled, by us or by others.
namespace trainyard::engine::slurm {
namespace {}  // namespace

std::optional<Book::Cancel> Book::take_cancel(SteadyTime now) {
  const SteadyTime again = now + patience_.cancel_again;
  for (auto& [attempt, entry] : entries_) {
    if (!entry.cancel_at || *entry.cancel_at > now) continue;
    entry.cancel_at = again;  // Until a look shows that it is over.
    entry.cancelled = true;
    if (entry.stage == Stage::placed) look_soon(now);
    return cancel_of(attempt, entry.number, entry.index, entry.array);
  }
  for (auto& [attempt, orphan] : orphans_) {
    if (orphan.at > now) continue;
    orphan.at = again;
    return orphan.job;
  }
  for (auto& [key, twin] : twins_) {
    if (twin.at > now) continue;
    twin.at = again;
    return twin.job;
  }
  return std::nullopt;
}

std::optional<SteadyTime> Book::next_cancel() const {
  std::optional<SteadyTime> first;
  for (const auto& [attempt, entry] : entries_) {
    if (entry.cancel_at) earlier(first, *entry.cancel_at);
  }
  for (const auto& [attempt, orphan] : orphans_) earlier(first, orphan.at);
  for (const auto& [key, twin] : twins_) earlier(first, twin.at);
  return first;
}

// ---- cancelled by others ----

// The job of an attempt that is over was cancelled, and not by us. Its supervisor was told to stop
// as by a preemption and reported an eviction: but who cancels a job does not want it to start
// anew.
void Book::cut_short(const AttemptId& attempt, const Job& job, SteadyTime now) {
  const std::string words = ending_of(job, server_url_).words;
  const AttemptId next{attempt.run, attempt.number + 1};
  const auto found = entries_.find(next);
  if (found == entries_.end()) {
    cut_[attempt.run.value] = {.attempt = attempt.number, .words = words, .at = now};
    return;
  }
  Entry& entry = found->second;
  if (entry.stage == Stage::gone || entry.stage == Stage::over) return;
  std::erase(line_, next);
  if (entry.stage != Stage::waiting) entry.cancel_at = now;
  tell_gone(next, entry, {.why = words, .refused = true}, now);
}

// An attempt waits, for a while, to see how the job of the one before it ended.
SteadyTime Book::free_from(const AttemptId& attempt) const {
  const auto before = entries_.find({attempt.run, attempt.number - 1});
  if (before == entries_.end()) return {};
  const std::optional<Job>& job = before->second.job;
  if (!job || phase_of(job->state) == Phase::ended || before->second.cancelled) return {};
  return entries_.at(attempt).since + patience_.settle;
}

}  // namespace trainyard::engine::slurm
