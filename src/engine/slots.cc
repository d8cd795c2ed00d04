#include "engine/slots.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "wire/json.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kGigabyte = int64_t{1} << 30;
constexpr int kSlotsPerNet = 250;

// All of 127.0.0.0/8 is this machine. Its first net is left to others, who listen there.
std::string slot_address(int slot) {
  return "127.1." + std::to_string(slot / kSlotsPerNet) + "." +
         std::to_string(slot % kSlotsPerNet + 1);
}

std::string slot_name(const std::string& compute, int slot) {
  return compute + "-" + std::to_string(slot);
}

}  // namespace

Result<std::shared_ptr<Slots>> Slots::make(LocalOptions options, Settings settings) {
  std::shared_ptr<Slots> slots(std::unique_ptr<Slots>(new Slots(options, std::move(settings))));
  options.prepare = [self = slots.get()](Assignment& one) { self->prepare(one); };
  TRY_SET(slots->local_, make_local(std::move(options)));
  return slots;
}

void Slots::change(Settings settings) {
  std::lock_guard lock(mutex_);
  settings_ = std::move(settings);
}

void Slots::pause(bool paused) {
  std::lock_guard lock(mutex_);
  settings_.paused = paused;
}

Capacity Slots::capacity() const {
  Capacity capacity = local_->capacity();
  std::lock_guard lock(mutex_);
  const VmSize& size = settings_.size;
  capacity.nodes = capacity.slots = settings_.compute.max_nodes;
  capacity.memory_bytes /= capacity.slots;
  if (size.name.empty()) return capacity;
  if (size.cpus > 0) capacity.cpus = std::min(capacity.cpus, size.cpus);
  if (size.memory_gb > 0) {
    capacity.memory_bytes =
        std::min(capacity.memory_bytes, static_cast<int64_t>(size.memory_gb * double{kGigabyte}));
  }
  if (size.gpus == 0) capacity.gpus.clear();
  return capacity;
}

Status Slots::place(const Assignment& assignment) {
  {
    std::lock_guard lock(mutex_);
    if (!taken_.contains(assignment.id())) {
      taken_[assignment.id()] = choose(assignment.spec.nodes);
    }
  }
  Status placed = local_->place(assignment);
  if (!placed) vacate(assignment.id());
  return placed;
}

// Those that are up before those that are off. The caller has counted: where the free ones do not
// suffice, fewer are allowed now than are in use, and the numbers go on.
std::vector<int> Slots::choose(int count) const {
  std::set<int> in_use;
  for (const auto& [attempt, slots] : taken_) in_use.insert(slots.begin(), slots.end());
  const SteadyTime now = clock_.steady();
  std::vector<int> free;
  for (int slot = 0; slot < settings_.compute.max_nodes; ++slot) {
    if (!in_use.contains(slot)) free.push_back(slot);
  }
  std::ranges::stable_partition(free, [&](int slot) { return is_up(slot, now); });
  for (int slot = settings_.compute.max_nodes; static_cast<int>(free.size()) < count; ++slot) {
    if (!in_use.contains(slot)) free.push_back(slot);
  }
  free.resize(static_cast<size_t>(count));
  std::ranges::sort(free);
  return free;
}

// Its name and address, and its part of the attempt's GPUs.
void Slots::prepare(Assignment& assignment) {
  std::lock_guard lock(mutex_);
  const int slot = taken_.at(assignment.id()).at(static_cast<size_t>(assignment.node));
  assignment.node_name = slot_name(settings_.compute.name, slot);
  assignment.node_address = slot_address(slot);
  assignment.submitter_here = settings_.submitters_here;
  const auto each = static_cast<std::ptrdiff_t>(assignment.gpus.size()) / assignment.spec.nodes;
  const auto first = assignment.gpus.begin() + assignment.node * each;
  assignment.gpus = std::vector<int>(first, first + each);
}

// Which slots it has is in what its supervisors were given.
Status Slots::recover(const AttemptId& attempt) {
  TRY(local_->recover(attempt));
  std::vector<int> slots;
  for (int node = 0;; ++node) {
    const auto text = read_file(home_.attempt(attempt, node) / "assignment.json");
    const auto json = text ? wire::parse(*text) : std::unexpected(text.error());
    const auto given = json ? wire::decode_assignment(*json) : std::unexpected(json.error());
    if (!given) break;
    const std::string& name = given->node_name;
    const Result<int64_t> slot = parse_int(name.substr(name.rfind('-') + 1), "slot");
    if (slot) slots.push_back(static_cast<int>(*slot));
  }
  std::lock_guard lock(mutex_);
  if (!slots.empty()) taken_.emplace(attempt, std::move(slots));
  return {};
}

void Slots::vacate(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  const auto found = taken_.find(attempt);
  if (found == taken_.end()) return;
  for (const int slot : found->second) used_[slot] = clock_.steady();
  taken_.erase(found);
}

Status Slots::release(const AttemptId& attempt) {
  vacate(attempt);
  return local_->release(attempt);
}

NodesSeen Slots::nodes() {
  const Capacity each = capacity();
  const SteadyTime now = clock_.steady();
  std::lock_guard lock(mutex_);
  int count = settings_.compute.max_nodes;
  for (const auto& [attempt, slots] : taken_) count = std::max(count, slots.back() + 1);
  NodesSeen seen;
  for (int slot = 0; slot < count; ++slot) {
    NodeState node = state_of(slot, now);
    if (slot >= settings_.compute.max_nodes && node.runs.empty()) continue;
    node.cpus = each.cpus;
    node.memory_bytes = each.memory_bytes;
    node.gpus = static_cast<int>(each.gpus.size());
    seen.nodes.push_back(std::move(node));
  }
  const auto up = [](const NodeState& node) { return node.is != NodeState::Is::off; };
  seen.wanted = static_cast<int>(std::ranges::count_if(seen.nodes, up));
  // The least number is up without ever having been used.
  for (NodeState& node : seen.nodes) {
    if (settings_.paused || seen.wanted >= settings_.compute.min_nodes) break;
    if (up(node)) continue;
    node.is = NodeState::Is::idle;
    ++seen.wanted;
  }
  return seen;
}

bool Slots::is_up(int slot, SteadyTime now) const {
  const auto used = used_.find(slot);
  return !settings_.paused && used != used_.end() &&
         now - used->second < seconds(settings_.compute.idle_seconds);
}

NodeState Slots::state_of(int slot, SteadyTime now) const {
  NodeState node;
  node.name = slot_name(settings_.compute.name, slot);
  node.is = is_up(slot, now) ? NodeState::Is::idle : NodeState::Is::off;
  for (const auto& [attempt, slots] : taken_) {
    if (std::ranges::find(slots, slot) == slots.end()) continue;
    node.runs.push_back(attempt.run);
    node.is = NodeState::Is::running;
  }
  return node;
}

}  // namespace trainyard::engine
