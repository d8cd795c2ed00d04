#include "control/ledger.h"

#include <algorithm>
#include <utility>

namespace trainyard::control {
namespace {

constexpr int kCancelJam = -1;

}  // namespace

size_t Ledger::Account::gpus_free() const {
  return static_cast<size_t>(std::ranges::count_if(
      capacity.gpus, [&](int device) { return !gpus_used->contains(device); }));
}

bool Ledger::Account::fits(const Resources& wants, int attempts, int nodes) const {
  if (capacity.window > 0) return live - begun + attempts <= capacity.window;
  if (capacity.slots > 0) {
    return nodes <= slots_free() && static_cast<size_t>(wants.gpus) <= gpus_free();
  }
  return wants.cpus <= cpus_free() && wants.memory_bytes <= capacity.memory_bytes - memory_used &&
         (capacity.gpus.empty() || static_cast<size_t>(wants.gpus) <= gpus_free());
}

int Ledger::Account::room() const {
  // On a machine every run takes a CPU at least: more than are free cannot fit.
  if (paused) return 0;
  if (capacity.slots > 0) return slots_free();
  return std::max(0, capacity.window > 0 ? capacity.window - (live - begun) : cpus_free());
}

void Ledger::open(std::string_view queue, const engine::Capacity& capacity) {
  Account& opened = account(queue);
  opened.capacity = capacity;
  if (capacity.slots == 0) return;
  const std::shared_ptr<std::set<int>> machine = account(kLocalQueue).gpus_used;
  machine->insert(opened.gpus_used->begin(), opened.gpus_used->end());
  opened.gpus_used = machine;
}

Ledger::Account& Ledger::account(std::string_view queue) {
  const auto found = accounts_.find(queue);
  return found != accounts_.end() ? found->second : accounts_[std::string(queue)];
}

std::string Ledger::queue_of(const AttemptId& attempt) const {
  const auto found = holdings_.find(attempt);
  return found != holdings_.end() ? found->second.queue : std::string();
}

std::vector<int> Ledger::take(const AttemptId& attempt, std::string_view queue,
                              const Resources& resources, SteadyTime now, std::vector<int> gpus,
                              int nodes) {
  Account& target = account(queue);
  const auto [held, fresh] =
      holdings_.emplace(attempt, Holding{std::string(queue), resources, {}, nodes, now, now, {}});
  if (!fresh) return held->second.gpus;
  const auto wanted = static_cast<size_t>(resources.gpus * (target.capacity.slots > 0 ? nodes : 1));
  target.nodes_used += nodes;
  ++target.live;
  target.cpus_used += resources.cpus;
  target.memory_used += resources.memory_bytes;
  for (const int device : target.capacity.gpus) {
    if (gpus.size() >= wanted) break;
    if (!target.gpus_used->contains(device)) gpus.push_back(device);
  }
  target.gpus_used->insert(gpus.begin(), gpus.end());
  held->second.gpus = std::move(gpus);
  return held->second.gpus;
}

bool Ledger::give_back(const AttemptId& attempt) {
  const auto found = holdings_.find(attempt);
  if (found == holdings_.end()) return false;
  const Holding& holding = found->second;
  Account& target = account(holding.queue);
  --target.live;
  if (holding.begun) --target.begun;
  target.cpus_used -= holding.resources.cpus;
  target.memory_used -= holding.resources.memory_bytes;
  for (const int device : holding.gpus) target.gpus_used->erase(device);
  target.nodes_used -= holding.on_nodes;
  holdings_.erase(found);
  return true;
}

// The targets stay.
void Ledger::clear() {
  holdings_.clear();
  for (auto& [queue, target] : accounts_) {
    Account fresh;
    fresh.capacity = target.capacity;
    fresh.paused = target.paused;
    fresh.gpus_used = target.gpus_used;
    fresh.gpus_used->clear();
    target = std::move(fresh);
  }
}

bool Ledger::heard(const AttemptId& attempt, SteadyTime now, int node, int nodes) {
  const auto found = holdings_.find(attempt);
  if (found == holdings_.end()) return false;
  Holding& holding = found->second;
  const bool first = !std::exchange(holding.begun, true);
  Account& target = account(holding.queue);
  if (first) ++target.begun;
  const bool opens = first && target.capacity.window > 0;
  if (nodes == 1) {
    holding.heard = holding.looked = now;
    return opens;
  }
  if (holding.nodes.empty()) holding.nodes.assign(static_cast<size_t>(nodes), holding.heard);
  holding.nodes.at(static_cast<size_t>(node)) = now;
  const SteadyTime least = *std::ranges::min_element(holding.nodes);
  if (least == holding.heard) return opens;
  holding.heard = least;
  holding.looked = std::max(holding.looked, least);
  return opens;
}

std::vector<Ledger::Silent> Ledger::silent(SteadyTime now, microseconds term) {
  std::vector<Silent> found;
  for (auto& [attempt, holding] : holdings_) {
    if (now - holding.looked < term) continue;
    holding.looked = now;
    found.push_back({attempt, holding.queue, now - holding.heard});
  }
  return found;
}

void Ledger::progressed(const AttemptId& attempt, SteadyTime now, int node,
                        const std::string& stuck) {
  const auto found = holdings_.find(attempt);
  if (found == holdings_.end()) return;
  auto& jams = found->second.jams;
  if (stuck.empty()) {
    jams.erase(node);
  } else {
    jams.emplace(node, Holding::Jam{now, now, {}}).first->second.why = stuck;
  }
}

void Ledger::canceled(const AttemptId& attempt, SteadyTime since) {
  const auto found = holdings_.find(attempt);
  if (found == holdings_.end()) return;
  found->second.jams.emplace(
      kCancelJam, Holding::Jam{since, since, "it was canceled and does not stop its program"});
}

void Ledger::finalizing(const AttemptId& attempt) {
  const auto found = holdings_.find(attempt);
  if (found != holdings_.end()) found->second.jams.erase(kCancelJam);
}

std::vector<Ledger::Stuck> Ledger::stuck(SteadyTime now, microseconds term, microseconds lease) {
  std::vector<Stuck> found;
  for (auto& [attempt, holding] : holdings_) {
    if (now - holding.heard >= lease) continue;
    for (auto& [node, jam] : holding.jams) {
      if (now - jam.looked < term) continue;
      jam.looked = now;
      found.push_back({attempt, holding.queue, now - jam.since, jam.why});
      break;
    }
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
    for (SteadyTime& heard : holding.nodes) heard += gap;
    for (auto& [node, jam] : holding.jams) {
      jam.since += gap;
      jam.looked += gap;
    }
  }
}

}  // namespace trainyard::control
