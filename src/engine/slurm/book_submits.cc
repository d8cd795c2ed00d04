// What of a book is about handing jobs in: alone, or several that are alike as an array.
#include <algorithm>

#include "base/result.h"
#include "engine/slurm/batch.h"
#include "engine/slurm/book.h"

namespace trainyard::engine::slurm {
namespace {}  // namespace

std::optional<Assignment> Book::take_submission(SteadyTime now) {
  std::vector<Assignment> taken =
      take_submissions(now, [](const Assignment&, const Assignment&) { return false; });
  if (taken.empty()) return std::nullopt;
  return std::move(taken.front());
}

// Of those that are alike only what is next in line: nobody is overtaken.
std::vector<Assignment> Book::take_submissions(SteadyTime now, const Together& together) {
  std::vector<Assignment> taken;
  if (!held_.empty() || now < no_submit_before_) return taken;
  ArrayRoom room(owner_);
  for (auto next = line_.begin(); next != line_.end();) {
    if (free_from(*next) > now) {
      ++next;
      continue;
    }
    Entry& entry = entries_.at(*next);
    const bool joins =
        taken.empty() || (now >= alone_until_ && together(taken.front(), *entry.assignment));
    if (!joins || !room.take(*next)) break;
    taken.push_back(*entry.assignment);
    set(entry, Stage::submitting, now);
    next = line_.erase(next);
  }
  return taken;
}

std::optional<SteadyTime> Book::next_submit() const {
  if (line_.empty() || !held_.empty()) return std::nullopt;
  std::optional<SteadyTime> first;
  for (const AttemptId& attempt : line_) {
    earlier(first, free_from(attempt));
    if (*first <= no_submit_before_) break;
  }
  return std::max(*first, no_submit_before_);
}

void Book::submitted(const std::vector<AttemptId>& attempts, const Result<int64_t>& number,
                     SteadyTime now) {
  if (number) {
    away_.clear();
    full_.clear();
    retry_ = seconds(1);
    const std::string name = attempts.size() > 1 ? name_of(attempts) : "";
    for (size_t i = 0; i < attempts.size(); ++i) {
      const int index = attempts.size() > 1 ? static_cast<int>(i) : -1;
      taken({attempts[i], *number, index, name}, now);
    }
    return;
  }
  const Error& error = number.error();
  const bool refused = error.kind == ErrorKind::invalid || error.kind == ErrorKind::conflict;
  if (refused) {
    away_.clear();
  } else {
    away_ = told(error);
    last_away_ = now;
    no_submit_before_ = now + retry_;
    retry_ = std::min(retry_ * 2, patience_.retry_max);
  }
  if (refused && attempts.size() > 1) {
    // A limit on arrays, or on jobs of which some still have room.
    alone_until_ = now + patience_.alone;
  } else if (error.kind == ErrorKind::conflict) {
    full_ = error.message;
    no_submit_before_ = now + patience_.full;
  }
  // The last first: each comes before all who wait.
  for (size_t i = attempts.size(); i-- > 0;) {
    not_taken(attempts[i], error, refused && attempts.size() > 1, now);
  }
}

void Book::taken(const Cancel& job, SteadyTime now) {
  const auto found = entries_.find(job.attempt);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.number = job.number;
  entry.index = job.index;
  entry.array = job.array;
  entry.assignment.reset();  // With its ticket, which is in the job script from here on.
  if (std::exchange(entry.under_way, false)) {
    set(entry, entry.stage, now);
  } else {
    set(entry, entry.released ? Stage::over : Stage::placed, now);
  }
  if (entry.killed) entry.cancel_at = now;  // While it was under way.
  next_look_ = std::min(next_look_, std::max(now, last_look_ + patience_.look));
}

void Book::not_taken(const AttemptId& attempt, const Error& error, bool as_array, SteadyTime now) {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (entry.released && error.kind != ErrorKind::unavailable) {
    entries_.erase(found);
    return;
  }
  if (std::exchange(entry.under_way, false)) {
    set(entry, entry.stage, now);
    if (error.kind == ErrorKind::unavailable) entry.cancel_at = now;  // Slurm may have it.
    return;
  }
  if (error.kind == ErrorKind::invalid && !as_array) {
    return tell_gone(attempt, entry, {.why = error.message, .refused = true}, now);
  }
  // Refused as an array, too many jobs, or nobody there to take it.
  if (error.kind == ErrorKind::invalid || error.kind == ErrorKind::conflict ||
      error.kind == ErrorKind::not_found) {
    if (entry.killed) return tell_gone(attempt, entry, {.why = "it was taken back"}, now);
    set(entry, Stage::waiting, now);
    line_.push_front(attempt);
    return;
  }
  // It may have been accepted all the same.
  set(entry, entry.released ? Stage::over : Stage::unsure, now);
  next_look_ = std::min(next_look_, std::max(now, last_look_ + patience_.look));
}

}  // namespace trainyard::engine::slurm
