// What the book knows of nodes: who waits for some, and who is on which.
#include <algorithm>

#include "engine/slurm/book.h"
#include "engine/slurm/host_list.h"

namespace trainyard::engine::slurm {

std::vector<ScaleWant> Book::wants() const {
  std::vector<std::pair<size_t, ScaleWant>> found;
  for (const auto& [attempt, entry] : entries_) {
    if (entry.killed) continue;
    const bool waits = entry.job && phase_of(entry.job->state) == Phase::waiting &&
                       is_for_nodes(entry.job->reason);
    const bool to_come = !entry.job && entry.assignment.has_value();
    switch (entry.stage) {
      case Stage::waiting:
      case Stage::submitting:
      case Stage::unsure:
        if (!to_come && !waits) continue;
        break;
      case Stage::placed:
        if (entry.job && !waits) continue;
        break;
      case Stage::gone:
      case Stage::over:
        continue;
    }
    const int nodes = entry.job && entry.job->nodes > 0 ? entry.job->nodes : entry.nodes;
    found.emplace_back(entry.order,
                       ScaleWant{.id = attempt.str(), .nodes = nodes, .each = entry.resources});
  }
  std::ranges::stable_sort(found, {}, [](const auto& item) { return item.first; });
  std::vector<ScaleWant> wants;
  for (auto& [order, want] : found) wants.push_back(std::move(want));
  return wants;
}

std::map<std::string, std::vector<RunId>> Book::runs_on_nodes() const {
  std::map<std::string, std::vector<RunId>> runs;
  for (const auto& [attempt, entry] : entries_) {
    if (!entry.job) continue;
    const Phase phase = phase_of(entry.job->state);
    if (phase != Phase::running && phase != Phase::ending) continue;
    for (const std::string& node : expand_hosts(entry.job->node_list)) {
      runs[node].push_back(attempt.run);
    }
  }
  return runs;
}

}  // namespace trainyard::engine::slurm
