#include "control/ledger.h"

#include <algorithm>

namespace trainyard::control {

bool Ledger::fits(const Resources& wants) const {
  return wants.cpus <= cpus_free() && wants.memory_bytes <= capacity_.memory_bytes - memory_used_ &&
         (capacity_.gpus.empty() || static_cast<size_t>(wants.gpus) <= gpus_free());
}

std::vector<int> Ledger::take(const AttemptId& attempt, const Resources& resources, SteadyTime now,
                              std::vector<int> gpus) {
  const auto [held, fresh] = holdings_.emplace(attempt, Holding{resources, {}, now, now});
  if (!fresh) return held->second.gpus;
  cpus_used_ += resources.cpus;
  memory_used_ += resources.memory_bytes;
  for (const int device : capacity_.gpus) {
    if (gpus.size() >= static_cast<size_t>(resources.gpus)) break;
    if (!gpus_used_.contains(device)) gpus.push_back(device);
  }
  gpus_used_.insert(gpus.begin(), gpus.end());
  held->second.gpus = std::move(gpus);
  return held->second.gpus;
}

bool Ledger::give_back(const AttemptId& attempt) {
  const auto found = holdings_.find(attempt);
  if (found == holdings_.end()) return false;
  cpus_used_ -= found->second.resources.cpus;
  memory_used_ -= found->second.resources.memory_bytes;
  for (const int device : found->second.gpus) gpus_used_.erase(device);
  holdings_.erase(found);
  return true;
}

void Ledger::clear() {
  holdings_.clear();
  cpus_used_ = 0;
  memory_used_ = 0;
  gpus_used_.clear();
  queued = 0;
}

void Ledger::heard(const AttemptId& attempt, SteadyTime now) {
  const auto found = holdings_.find(attempt);
  if (found == holdings_.end()) return;
  found->second.heard = now;
  found->second.looked = now;
}

std::vector<Ledger::Silent> Ledger::silent(SteadyTime now, microseconds term) {
  std::vector<Silent> found;
  for (auto& [attempt, holding] : holdings_) {
    if (now - holding.looked < term) continue;
    holding.looked = now;
    found.push_back({attempt, now - holding.heard});
  }
  return found;
}

std::optional<SteadyTime> Ledger::next_look(microseconds term) const {
  std::optional<SteadyTime> next;
  for (const auto& [attempt, holding] : holdings_) {
    const SteadyTime due = holding.looked + term;
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

void Ledger::forgive(microseconds gap) {
  for (auto& [attempt, holding] : holdings_) {
    holding.heard += gap;
    holding.looked += gap;
  }
}

}  // namespace trainyard::control
