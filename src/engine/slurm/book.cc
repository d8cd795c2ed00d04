#include "engine/slurm/book.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/result.h"

namespace trainyard::engine::slurm {
namespace {}  // namespace

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
      entry.under_way = true;
      return tell_gone(attempt, entry, {.why = "it was taken back"}, now);
    case Stage::unsure:
      if (!entry.assignment) return;  // Cancelled once it is known whether there is a job.
      break;
    case Stage::placed:
      entry.cancel_at = now;
      if (!away_.empty() && (!entry.job || phase_of(entry.job->state) == Phase::waiting)) break;
      return;
    case Stage::gone:
    case Stage::over:
      entry.cancel_at = now;
      return;
  }
  // Nobody is kept waiting for a Slurm that does not answer: if it has a job of this one and starts
  // it, the server refuses that its assignment until it is cancelled.
  entry.cancel_at = now;
  tell_gone(attempt, entry, {.why = "it was taken back"}, now);
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

std::string Book::waits_for(const AttemptId& attempt, WallTime now,
                            const std::string& silence) const {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return {};
  const Entry& entry = found->second;
  const std::string& why = away_.empty() ? silence : away_;
  const std::string away = held()        ? "waits for the way to the cluster: " + held_
                           : why.empty() ? ""
                                         : "Slurm does not answer, it is asked again: " + why;
  switch (entry.stage) {
    case Stage::waiting:
      if (!away.empty()) return away;
      if (!full_.empty()) return "waits to be taken by Slurm: " + full_;
      return "waits to be handed to Slurm" + place_in_line(attempt);
    case Stage::submitting:
      return away.empty() ? "is being handed to Slurm" : away;
    case Stage::unsure:
      return away.empty() ? "is being looked for in Slurm" : away;
    case Stage::placed: {
      if (!entry.job) return away.empty() ? "Slurm has it" : away;
      const std::string words = words_for(*entry.job, count_nodes(nodes_, entry.job->partition),
                                          now, patience_.has_setup);
      return away.empty() ? words : words + " (as seen last: " + away + ")";
    }
    case Stage::gone:
    case Stage::over:
      break;
  }
  return {};
}

bool Book::seen_waiting(const AttemptId& attempt) const {
  const auto found = entries_.find(attempt);
  if (found == entries_.end() || !away_.empty()) return false;
  const std::optional<Job>& job = found->second.job;
  return found->second.stage == Stage::placed && job && phase_of(job->state) == Phase::waiting;
}

std::string Book::place_in_line(const AttemptId& attempt) const {
  const auto found = std::ranges::find(line_, attempt);
  const auto before = found - line_.begin();
  return before == 0 ? "" : fmt::format(", after {} others", before);
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

bool Book::any_killed() const {
  return std::ranges::any_of(entries_, [](const auto& item) {
    return item.second.stage == Stage::placed && item.second.cancelled;
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
  const Arrays arrays = arrays_in(*jobs);
  std::map<AttemptId, Seen> seen = sort_out(*jobs, arrays);
  std::erase_if(orphans_, [&](const auto& item) { return !seen.contains(item.first); });
  std::erase_if(twins_, [&](const auto& item) {
    const auto found = seen.find(item.first.first);
    return found == seen.end() || std::ranges::find(found->second.twins, item.first.second,
                                                    &Job::number) == found->second.twins.end();
  });
  for (const auto& [attempt, one] : seen) {
    for (const Job& twin : one.twins) {
      twins_.try_emplace({attempt, twin.number},
                         Doomed{now, {attempt, twin.number, twin.index, twin.name}});
    }
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
    if (found == seen.end()) {
      if (const auto job = cut_out(entry->second, arrays, begun)) {
        see(entry->first, entry->second, *job, now);
        ++entry;
        continue;
      }
    }
    // An attempt that is over is forgotten when its job is.
    const bool forget = found == seen.end()
                            ? miss(entry->first, entry->second, begun, now)
                            : entry->second.stage == Stage::over && is_over(*found->second.job);
    entry = forget ? entries_.erase(entry) : std::next(entry);
  }
  // A slow answer is a busy controller: a tenth of its time at most is ours.
  const auto slow = std::chrono::ceil<milliseconds>((now - begun) * 9);
  const milliseconds least = any_killed() ? patience_.look_cancelled : patience_.look;
  next_look_ = now + (busy() ? std::clamp<milliseconds>(slow, least, patience_.look_max)
                             : patience_.look_idle);
}

void Book::see(const AttemptId& attempt, Entry& entry, const Job& job, SteadyTime now) {
  entry.missing.reset();
  if (entry.stage == Stage::submitting) return;  // The next look tells.
  // An earlier try was taken after all, and is seen before the next one is made.
  if (entry.stage == Stage::waiting && is_over(job)) return;
  entry.job = job;
  entry.number = job.number;
  entry.index = job.index;
  entry.array = job.index < 0 ? "" : job.name;
  const Phase phase = phase_of(job.state);
  const bool confused = last_away_ && now - *last_away_ < patience_.confused;
  const bool cut = job.state == "CANCELLED" && !entry.cancelled && !confused;
  // At once: the attempt's own supervisor reports an eviction, and the next attempt waits for
  // exactly this.
  if (cut) cut_short(attempt, job, now);
  // The attempt is over by its own report: how its job ended is the reason, and nothing is awaited.
  const bool reported = entries_.contains({attempt.run, attempt.number + 1});
  if (entry.stage == Stage::over && reported && phase == Phase::ended && !entry.cancelled) {
    const Ending ending = ending_of(job, server_url_);
    gone_.emplace_back(
        attempt,
        Engine::Going{.why = ending.words, .evicted = ending.evicted, .stopped = ending.stopped});
  }
  if (entry.stage == Stage::gone || entry.stage == Stage::over) {
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
  // Of one that we have cancelled no report is waited for.
  const bool as_told = entry.cancelled && job.state == "CANCELLED";
  const seconds last_report = as_told || reported ? seconds(0) : patience_.ended;
  if (lasts(entry.ended, phase == Phase::ended, last_report)) {
    Ending ending = ending_of(job, server_url_);
    if (as_told) {
      ending.words = fmt::format("its Slurm job {} was cancelled", job.id());
    }
    return tell_gone(attempt, entry,
                     {.why = ending.words,
                      .refused = cut,
                      .evicted = ending.evicted,
                      .stopped = ending.stopped && !entry.cancelled},
                     now);
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
  if (begun < entry.since || entry.under_way) return false;
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
  Doomed& doomed = orphans_.try_emplace(attempt, Doomed{now + patience_.orphan, {}}).first->second;
  doomed.job = cancel_of(attempt, job.number, job.index, job.name);
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
