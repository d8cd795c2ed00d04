#include <algorithm>

#include "engine/slurm/book.h"

// What of a book is about jobs that are cancelled, by us or by others.
namespace trainyard::engine::slurm {

// A name alone does not say whose a job is, since another home may have a run of the same id: a job
// whose number is not known is cancelled once a look has shown it. One that Slurm is ending already
// is left to it; whoever cancelled that is still to be seen.
bool Book::can_cancel(const Entry& entry) {
  const bool ending = entry.job && phase_of(entry.job->state) == Phase::ending;
  return entry.cancel_at && entry.number != 0 && !ending;
}

std::optional<Book::Cancel> Book::take_cancel(SteadyTime now) {
  const SteadyTime again = now + patience_.cancel_again;
  for (auto& [attempt, entry] : entries_) {
    if (!can_cancel(entry) || *entry.cancel_at > now) continue;
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
    if (can_cancel(entry)) earlier(first, *entry.cancel_at);
  }
  for (const auto& [attempt, orphan] : orphans_) earlier(first, orphan.at);
  for (const auto& [key, twin] : twins_) earlier(first, twin.at);
  return first;
}

// ---- cancelled by others ----

// The job of an attempt was cancelled, and not by us. Its supervisor gets the same signal as for a
// preemption and reports an eviction, but who cancels a job does not want it to start again.
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

// An attempt waits, for a while, until Slurm shows how the job of the attempt before ended.
// Cancelled by a person, the run is not started again; cancelled by us, its ranks must be gone
// first. A job that no look has shown yet counts as not ended.
SteadyTime Book::free_from(const AttemptId& attempt) const {
  const auto found = entries_.find({attempt.run, attempt.number - 1});
  if (found == entries_.end()) return {};
  const Entry& before = found->second;
  const bool ended = before.job ? is_over(*before.job) : before.stage == Stage::gone;
  if (ended) return {};
  return entries_.at(attempt).since + patience_.settle;
}

}  // namespace trainyard::engine::slurm
