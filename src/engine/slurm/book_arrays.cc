// What of a book is about whose a job is that Slurm shows, which may be many in one.
#include <algorithm>

#include "engine/slurm/batch.h"
#include "engine/slurm/book.h"

namespace trainyard::engine::slurm {
namespace {

// Of several jobs of one attempt: one that is not over, of these the one that runs, of these the
// older. A second one comes of a submission that was taken although we had no answer.
bool is_better(const Job& a, const Job& b) {
  if (is_over(a) != is_over(b)) return !is_over(a);
  const bool a_runs = phase_of(a.state) != Phase::waiting;
  const bool b_runs = phase_of(b.state) != Phase::waiting;
  if (a_runs != b_runs) return a_runs;
  return is_over(a) ? a.number > b.number : a.number < b.number;
}

}  // namespace

// A job of the version before is ours if we know one of its attempts. Which compute submitted one
// that nobody knows cannot be told, so it is left alone.
Book::Whose Book::whose(const Job& job) const {
  if (auto attempts = attempts_of(job.comment, owner_); !attempts.empty()) return {attempts, false};
  auto attempts = attempts_of(job.comment, home_of(owner_));
  const auto known = [&](const AttemptId& attempt) { return entries_.contains(attempt); };
  if (std::ranges::none_of(attempts, known)) return {};
  return {std::move(attempts), true};
}

Book::Arrays Book::arrays_in(const std::vector<Job>& jobs) const {
  Arrays arrays;
  for (const Job& job : jobs) {
    if (job.index < 0 && whose(job).attempts.size() < 2) continue;
    std::set<int>& places = arrays[{job.number, job.name}];
    if (job.index >= 0) places.insert(job.index);
  }
  return arrays;
}

// One that is no place of an array of several is all of its places that are not seen: they were
// cancelled before they started, or squeue did not tell which they are.
std::vector<std::pair<AttemptId, Job>> Book::each_of(const Job& job, const Arrays& arrays) const {
  const std::vector<AttemptId> attempts = whose(job).attempts;
  const auto place = static_cast<size_t>(job.index);
  if (job.index >= 0) {
    if (place >= attempts.size()) return {};
    return {{attempts[place], job}};
  }
  if (attempts.size() == 1) return {{attempts.front(), job}};
  std::vector<std::pair<AttemptId, Job>> each;
  for (size_t i = 0; i < attempts.size(); ++i) {
    Job one = job;
    one.index = static_cast<int>(i);
    if (arrays.at({job.number, job.name}).contains(one.index)) continue;
    each.emplace_back(attempts[i], std::move(one));
  }
  return each;
}

std::map<AttemptId, Book::Seen> Book::sort_out(const std::vector<Job>& jobs,
                                               const Arrays& arrays) const {
  std::map<AttemptId, Seen> seen;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const bool unmarked = whose(jobs[i]).unmarked;
    for (auto& [attempt, job] : each_of(jobs[i], arrays)) {
      if (unmarked && !entries_.contains(attempt)) continue;
      Seen& one = seen[attempt];
      if (!one.job) {
        one.job = std::move(job);
        one.order = i;
        continue;
      }
      const bool better = is_better(job, *one.job);
      if (better) std::swap(job, *one.job);
      if (!is_over(job)) one.twins.push_back(std::move(job));
    }
  }
  return seen;
}

// Slurm shows an array, but of a place that waited there nothing any more: somebody cancelled it.
std::optional<Job> Book::cut_out(const Entry& entry, const Arrays& arrays, SteadyTime begun) {
  if (entry.stage != Stage::placed || entry.index < 0 || begun < entry.since) return std::nullopt;
  if (!arrays.contains({entry.number, entry.array})) return std::nullopt;
  const bool was_cut = entry.job && entry.job->state == "CANCELLED";
  if (entry.job && !was_cut && phase_of(entry.job->state) != Phase::waiting) return std::nullopt;
  Job job = entry.job.value_or(Job{});
  job.number = entry.number;
  job.index = entry.index;
  job.name = entry.array;
  job.state = "CANCELLED";
  return job;
}

Book::Cancel Book::cancel_of(const AttemptId& attempt, int64_t number, int index,
                             std::string array) {
  if (index < 0) array.clear();
  return {attempt, number, index, std::move(array)};
}

}  // namespace trainyard::engine::slurm
