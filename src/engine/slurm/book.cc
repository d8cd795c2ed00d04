#include "engine/slurm/book.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine::slurm {
namespace {

bool is_over(const Job& job) { return phase_of(job.state) == Phase::ended; }

// Of several jobs of one attempt: one that is not over, of these the one that runs, of these the
// older. A second one comes of a submission that was taken although we had no answer.
bool is_better(const Job& a, const Job& b) {
  if (is_over(a) != is_over(b)) return !is_over(a);
  const bool a_runs = phase_of(a.state) != Phase::waiting;
  const bool b_runs = phase_of(b.state) != Phase::waiting;
  if (a_runs != b_runs) return a_runs;
  return is_over(a) ? a.number > b.number : a.number < b.number;
}

std::string told(const Error& error) {
  return error.message + (error.hint.empty() ? "" : " (" + error.hint + ")");
}

void earlier(std::optional<SteadyTime>& first, SteadyTime time) {
  if (!first || time < *first) first = time;
}

}  // namespace

// ---- the control plane's wishes ----

void Book::place(const Assignment& assignment, SteadyTime now) {
  const AttemptId attempt = assignment.id();
  if (entries_.contains(attempt)) return;
  Entry& entry = entries_[attempt];
  entry.assignment = assignment;
  entry.resources = assignment.spec.resources;
  entry.nodes = assignment.spec.nodes;
  if (server_url_.empty()) server_url_ = assignment.server_url;
  set(entry, Stage::waiting, now);
  const auto cut = cut_.find(attempt.run.value);
  if (cut != cut_.end() && cut->second.attempt == attempt.number - 1) {
    tell_gone(attempt, entry, {.why = cut->second.words, .refused = true}, now);
    cut_.erase(cut);
    return;
  }
  line_.push_back(attempt);
}

void Book::recover(const AttemptId& attempt, SteadyTime now) {
  if (entries_.contains(attempt)) return;
  orphans_.erase(attempt);
  set(entries_[attempt], Stage::unsure, now);
  next_look_ = std::min(next_look_, now);
}

void Book::kill(const AttemptId& attempt, SteadyTime now) {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.killed = true;
  switch (entry.stage) {
    case Stage::waiting:
      std::erase(line_, attempt);
      return tell_gone(attempt, entry, {.why = "it was taken back before Slurm had it"}, now);
    case Stage::submitting:
    case Stage::unsure:
      return;  // Cancelled once it is known whether there is a job.
    case Stage::placed:
    case Stage::gone:
    case Stage::over:
      entry.cancel_at = now;
  }
}

void Book::release(const AttemptId& attempt, SteadyTime now) {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  std::erase_if(gone_, [&](const Told& told) { return told.first == attempt; });
  if (entry.stage == Stage::waiting) {
    std::erase(line_, attempt);
    entries_.erase(found);
    return;
  }
  entry.killed = true;
  entry.released = true;
  if (entry.stage == Stage::submitting) return;  // submitted() goes on from here.
  entry.assignment.reset();
  set(entry, Stage::over, now);
  earlier(entry.cancel_at, now + patience_.released);
  next_look_ = std::min(next_look_, std::max(now, last_look_ + patience_.look));
}

Placement Book::inspect(const AttemptId& attempt) const {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return Placement::unknown;
  switch (found->second.stage) {
    case Stage::waiting:
    case Stage::submitting:
    case Stage::unsure:
    case Stage::placed:
      return Placement::live;
    case Stage::gone:
      return Placement::gone;
    case Stage::over:
      break;
  }
  return Placement::unknown;
}

std::string Book::waits_for(const AttemptId& attempt, WallTime now) const {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return {};
  const Entry& entry = found->second;
  std::string away = held()          ? "waits for the way to the cluster: " + held_
                     : away_.empty() ? ""
                                     : "Slurm does not answer, it is asked again: " + away_;
  switch (entry.stage) {
    case Stage::waiting:
      if (!away.empty()) return away;
      if (!full_.empty()) return "waits to be taken by Slurm: " + full_;
      return "waits to be handed to Slurm" + place_in_line(attempt);
    case Stage::submitting:
      return "is being handed to Slurm";
    case Stage::unsure:
      return away.empty() ? "is being looked for in Slurm" : away;
    case Stage::placed: {
      if (!entry.job) return away.empty() ? "Slurm has it" : away;
      const std::string words =
          words_for(*entry.job, count_nodes(nodes_, entry.job->partition), now);
      return away.empty() ? words : words + " (as seen last: " + away + ")";
    }
    case Stage::gone:
    case Stage::over:
      break;
  }
  return {};
}

std::string Book::place_in_line(const AttemptId& attempt) const {
  const auto found = std::ranges::find(line_, attempt);
  const auto before = found - line_.begin();
  return before == 0 ? "" : fmt::format(", after {} others", before);
}

// ---- submitting ----

std::optional<Assignment> Book::take_submission(SteadyTime now) {
  if (line_.empty() || !held_.empty() || now < no_submit_before_) return std::nullopt;
  const auto next = std::ranges::find_if(
      line_, [&](const AttemptId& attempt) { return free_from(attempt) <= now; });
  if (next == line_.end()) return std::nullopt;
  Entry& entry = entries_.at(*next);
  line_.erase(next);
  set(entry, Stage::submitting, now);
  return entry.assignment;
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

void Book::submitted(const AttemptId& attempt, const Result<int64_t>& number, SteadyTime now) {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  if (number) {
    away_.clear();
    full_.clear();
    retry_ = seconds(1);
    entry.number = *number;
    entry.assignment.reset();  // With its token, which is in the job script from here on.
    set(entry, entry.released ? Stage::over : Stage::placed, now);
    if (entry.killed) entry.cancel_at = now;  // While it was under way.
    next_look_ = std::min(next_look_, std::max(now, last_look_ + patience_.look));
    return;
  }
  const Error& error = number.error();
  if (entry.released && error.kind != ErrorKind::unavailable) {
    entries_.erase(found);
    return;
  }
  if (error.kind == ErrorKind::invalid) {
    away_.clear();
    return tell_gone(attempt, entry, {.why = error.message, .refused = true}, now);
  }
  if (error.kind == ErrorKind::conflict) {
    away_.clear();
    full_ = error.message;
    no_submit_before_ = now + patience_.full;
    if (entry.killed) return tell_gone(attempt, entry, {.why = "it was taken back"}, now);
    set(entry, Stage::waiting, now);
    line_.push_front(attempt);
    return;
  }
  away_ = told(error);
  last_away_ = now;
  no_submit_before_ = now + retry_;
  retry_ = std::min(retry_ * 2, patience_.retry_max);
  if (error.kind == ErrorKind::not_found) {  // There was nobody to take it.
    if (entry.killed) return tell_gone(attempt, entry, {.why = "it was taken back"}, now);
    set(entry, Stage::waiting, now);
    line_.push_front(attempt);
    return;
  }
  // It may have been accepted all the same.
  set(entry, entry.released ? Stage::over : Stage::unsure, now);
  next_look_ = std::min(next_look_, std::max(now, last_look_ + patience_.look));
}

// ---- looking ----

bool Book::busy() const {
  return !orphans_.empty() || !twins_.empty() ||
         std::ranges::any_of(entries_, [](const auto& item) {
           const Stage stage = item.second.stage;
           return stage == Stage::unsure || stage == Stage::placed || stage == Stage::over ||
                  item.second.cancel_at;
         });
}

bool Book::anything_waits() const {
  return std::ranges::any_of(entries_, [](const auto& item) {
    const std::optional<Job>& job = item.second.job;
    return item.second.stage == Stage::placed && job && phase_of(job->state) == Phase::waiting;
  });
}

void Book::looked(const Result<std::vector<Job>>& jobs, SteadyTime begun, SteadyTime now) {
  last_look_ = now;
  if (!jobs) {
    if (jobs.error().kind == ErrorKind::cancelled) return;
    away_ = told(jobs.error());
    last_away_ = now;
    look_pause_ = std::min(look_pause_ * 2, patience_.look_max);
    next_look_ = now + look_pause_;
    // What was missing may have been so for the same reason.
    for (auto& [attempt, entry] : entries_) entry.missing.reset();
    return;
  }
  away_.clear();
  look_pause_ = seconds(1);
  std::erase_if(cut_, [&](const auto& item) { return now - item.second.at > patience_.cut; });
  std::map<AttemptId, Seen> seen = sort_out(*jobs);
  std::erase_if(orphans_, [&](const auto& item) { return !seen.contains(item.first); });
  std::erase_if(twins_, [&](const auto& item) {
    const auto found = seen.find(item.first.first);
    return found == seen.end() ||
           std::ranges::find(found->second.twins, item.first.second) == found->second.twins.end();
  });
  for (const auto& [attempt, one] : seen) {
    for (const int64_t twin : one.twins) twins_.try_emplace({attempt, twin}, now);
    const auto found = entries_.find(attempt);
    if (found == entries_.end()) {
      see_orphan(attempt, *one.job, now);
    } else {
      found->second.order = one.order;
      see(attempt, found->second, *one.job, now);
    }
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto found = seen.find(entry->first);
    // An attempt that is over is forgotten when its job is.
    const bool forget = found == seen.end()
                            ? miss(entry->first, entry->second, begun, now)
                            : entry->second.stage == Stage::over && is_over(*found->second.job);
    entry = forget ? entries_.erase(entry) : std::next(entry);
  }
  // A slow answer is a busy controller: a tenth of its time at most is ours.
  const auto slow = std::chrono::ceil<seconds>((now - begun) * 9);
  next_look_ =
      now + (busy() ? std::clamp(slow, patience_.look, patience_.look_max) : patience_.look_idle);
}

std::map<AttemptId, Book::Seen> Book::sort_out(const std::vector<Job>& jobs) const {
  std::map<AttemptId, Seen> seen;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    const std::optional<AttemptId> attempt = attempt_of(job.comment, server_id_);
    if (!attempt) continue;
    Seen& one = seen[*attempt];
    if (!one.job) {
      one.job = job;
      one.order = i;
      continue;
    }
    const Job& worse = is_better(job, *one.job) ? *one.job : job;
    if (!is_over(worse)) one.twins.push_back(worse.number);
    if (is_better(job, *one.job)) one.job = job;
  }
  return seen;
}

void Book::see(const AttemptId& attempt, Entry& entry, const Job& job, SteadyTime now) {
  entry.missing.reset();
  if (entry.stage == Stage::submitting) return;  // The next look tells.
  // An earlier try was taken after all, and is seen before the next one is made.
  if (entry.stage == Stage::waiting && is_over(job)) return;
  entry.job = job;
  entry.number = job.number;
  const Phase phase = phase_of(job.state);
  const bool confused = last_away_ && now - *last_away_ < patience_.confused;
  const bool cut = job.state == "CANCELLED" && !entry.cancelled && !confused;
  if (entry.stage == Stage::gone || entry.stage == Stage::over) {
    if (cut && entry.stage == Stage::over) cut_short(attempt, job, now);
    // A controller that came back with an older memory may run it once more.
    if (phase == Phase::ended) {
      entry.cancel_at.reset();
    } else if (!entry.cancel_at) {
      entry.cancel_at = now + patience_.released;
    }
    return;
  }
  if (entry.stage == Stage::unsure || entry.stage == Stage::waiting) {
    std::erase(line_, attempt);
    entry.assignment.reset();
    set(entry, Stage::placed, now);
    if (entry.killed) entry.cancel_at = now;
  }
  const auto lasts = [&](std::optional<SteadyTime>& from, bool is, seconds limit) {
    if (!is) from.reset();
    if (is && !from) from = now;
    return is && now - *from >= limit;
  };
  if (phase == Phase::ended) entry.cancel_at.reset();
  if (lasts(entry.ended, phase == Phase::ended, patience_.ended)) {
    Ending ending = ending_of(job, server_url_);
    if (entry.cancelled && job.state == "CANCELLED") {
      ending.words = fmt::format("its Slurm job {} was cancelled", job.number);
    }
    return tell_gone(attempt, entry,
                     {.why = ending.words, .refused = cut, .evicted = ending.evicted}, now);
  }
  if (lasts(entry.ending, phase == Phase::ending, patience_.ending)) {
    return tell_gone(attempt, entry, {.why = "its Slurm job does not get done with ending"}, now);
  }
  const Numbers numbers = count_nodes(nodes_, job.partition);
  const bool too_early =
      patience_.nodes_come && is_for_nodes(job.reason) && numbers.idle + numbers.in_use < job.nodes;
  const bool never = phase == Phase::waiting && is_never(job.reason) && !too_early;
  if (lasts(entry.never, never, patience_.never)) {
    entry.cancel_at = now;
    tell_gone(attempt, entry,
              {.why = words_for(job, numbers, WallTime::max()) + " (" + job.reason + ")",
               .refused = true},
              now);
  }
}

bool Book::miss(const AttemptId& attempt, Entry& entry, SteadyTime begun, SteadyTime now) {
  // A look that was begun before it was submitted tells nothing.
  if (begun < entry.since) return false;
  switch (entry.stage) {
    case Stage::waiting:
    case Stage::submitting:
      return false;
    case Stage::gone:
      entry.cancel_at.reset();
      entry.job.reset();
      return false;
    case Stage::over:
      entry.job.reset();
      return begun - entry.since >= patience_.missing;
    case Stage::unsure:
    case Stage::placed:
      break;
  }
  if (!entry.missing) entry.missing = begun;
  if (begun - *entry.missing < patience_.missing) return false;
  if (entry.stage == Stage::unsure && entry.assignment) {
    entry.missing.reset();
    if (entry.killed) {
      tell_gone(attempt, entry, {.why = "it was taken back before Slurm had it"}, now);
      return false;
    }
    set(entry, Stage::waiting, now);
    line_.push_front(attempt);
    return false;
  }
  const std::string number = entry.number == 0 ? "" : fmt::format(" (it was {})", entry.number);
  entry.job.reset();
  tell_gone(attempt, entry, {.why = "Slurm has no job of it" + number}, now);
  return false;
}

void Book::see_orphan(const AttemptId& attempt, const Job& job, SteadyTime now) {
  if (is_over(job)) {
    orphans_.erase(attempt);
    return;
  }
  orphans_.try_emplace(attempt, now + patience_.orphan);
}

void Book::set(Entry& entry, Stage stage, SteadyTime now) {
  entry.stage = stage;
  entry.since = now;
}

void Book::tell_gone(const AttemptId& attempt, Entry& entry, Engine::Going going, SteadyTime now) {
  entry.assignment.reset();
  set(entry, Stage::gone, now);
  gone_.emplace_back(attempt, std::move(going));
}

}  // namespace trainyard::engine::slurm
