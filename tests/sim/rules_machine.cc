#include <algorithm>
#include <tuple>

#include "rules.h"

// The machine and the queue before it.
namespace trainyard::sim {

void Rules::check_machine(const Nodes& nodes) {
  int cpus = 0;
  int64_t memory = 0;
  std::set<RunId> running;
  std::map<int, AttemptId> gpus;
  for (const auto& [id, node] : nodes) {
    if (!node.alive() || node.ended()) continue;
    cpus += node.resources().cpus;
    memory += node.resources().memory_bytes;
    expect(running.insert(id.run).second, "run " + id.run.value + " runs on two nodes");
    for (const int device : node.gpus()) {
      const auto [holder, free] = gpus.emplace(device, id);
      expect(free, "GPU " + std::to_string(device) + " is given to " + holder->second.str() +
                       " and to " + id.str());
    }
  }
  expect(cpus <= capacity_.cpus,
         std::to_string(cpus) + " of " + std::to_string(capacity_.cpus) + " CPUs given out");
  expect(memory <= capacity_.memory_bytes, "more memory given out than there is");
}

// Exactly the GPUs it asked for; where there are none at all, none.
void Rules::check_placed(const Assignment& assignment) {
  const std::string who = "attempt " + assignment.id().str() + ": ";
  const bool any = !capacity_.gpus.empty();
  const auto asked = static_cast<size_t>(any ? assignment.spec.resources.gpus : 0);
  const std::set<int> given(assignment.gpus.begin(), assignment.gpus.end());
  expect(assignment.gpus.size() == asked && given.size() == asked,
         who + "was given " + std::to_string(given.size()) + " GPUs, not the " +
             std::to_string(asked) + " it asked for");
  expect(std::includes(capacity_.gpus.begin(), capacity_.gpus.end(), given.begin(), given.end()),
         who + "was given a GPU that is not there");
  expect(assignment.gives_gpus == any, who + "is not told whether GPUs are given out");
}

void Rules::check_load(const control::Control::Load& load) {
  const Resources all = held();
  const auto gpus = static_cast<int64_t>(capacity_.gpus.size());
  int64_t waiting = 0;
  int64_t live = 0;
  for (const auto& [id, seen] : seen_) {
    waiting += seen.waits() ? 1 : 0;
    live += seen.live() ? 1 : 0;
  }
  expect(load.cpus_used == all.cpus && load.memory_used_bytes == all.memory_bytes,
         "CPUs or memory leaked");
  expect(load.gpus_free == gpus - (gpus == 0 ? 0 : all.gpus), "a GPU leaked");
  expect(load.queued == waiting && load.live == live, "the queue is miscounted");
}

// By priority, then first come, first served: whoever was placed in this round overtook nobody who
// waited from before it, but for one exception, and nobody waits who would fit.
void Rules::check_round(Pause pause) {
  // What was held when the choice was made is held now, unless an attempt ended in this round.
  bool settled = true;
  std::vector<InQueue> placed;
  for (const auto& [id, seen] : seen_) {
    const Seen& then = before(id);
    const bool begun = seen.attempt > then.attempt;
    if (begun) placed.push_back({id, seen});
    if (begun ? !seen.live() || then.live() : then.live() && !seen.live()) settled = false;
  }
  std::vector<InQueue> waiting = queue();
  // One that came back to the queue in this round perhaps did so when the others had their places.
  std::erase_if(waiting, [&](const InQueue& one) {
    const Seen& then = before(one.id);
    return !then.waits() || then.attempt != one.seen.attempt;
  });
  for (const InQueue& one : placed) check_overtaking(one, waiting, settled);
  if (!settled || pause == Pause::perhaps) return;
  moved_ = false;
  if (waiting.empty()) return;
  const InQueue& first = waiting.front();
  expect(!fits(first.seen.resources), "run " + first.id.value + " waits though it would fit");
  if (!lacks_gpus(first.seen.resources)) return;
  const auto plain = std::find_if(waiting.begin(), waiting.end(),
                                  [](const InQueue& one) { return one.seen.resources.gpus == 0; });
  expect(plain == waiting.end() || !fits(plain->seen.resources),
         "who waits for GPUs does not let by those that want none");
}

// The exception: who lacks GPUs lets by those that want none.
void Rules::check_overtaking(const InQueue& placed, const std::vector<InQueue>& waiting,
                             bool settled) {
  const auto order = [](const InQueue& one) {
    return std::tuple(-static_cast<int>(one.seen.priority), one.seen.number);
  };
  for (const InQueue& one : waiting) {
    if (order(one) > order(placed)) return;
    const std::string what = "run " + placed.id.value + " overtook " + one.id.value;
    expect(!capacity_.gpus.empty() && placed.seen.resources.gpus == 0, what);
    expect(one.seen.resources.gpus > 0, what + ", that wants no GPU either");
    // Only the first: those behind it wait for their turn.
    const bool first = &one == &waiting.front();
    expect(!first || !settled || lacks_gpus(one.seen.resources), what + ", that lacks no GPU");
  }
}

const Rules::Seen& Rules::before(const RunId& id) const {
  const auto found = before_.find(id);
  return found == before_.end() ? seen_.at(id) : found->second;
}

Resources Rules::held() const {
  Resources all{.cpus = 0};
  for (const auto& [id, seen] : seen_) {
    if (!seen.live()) continue;
    all.cpus += seen.resources.cpus;
    all.memory_bytes += seen.resources.memory_bytes;
    all.gpus += seen.resources.gpus;
  }
  return all;
}

std::vector<Rules::InQueue> Rules::queue() const {
  std::vector<InQueue> waiting;
  for (const auto& [id, seen] : seen_) {
    if (seen.waits()) waiting.push_back({id, seen});
  }
  std::sort(waiting.begin(), waiting.end(), [](const InQueue& a, const InQueue& b) {
    return std::tuple(b.seen.priority, a.seen.number) < std::tuple(a.seen.priority, b.seen.number);
  });
  return waiting;
}

bool Rules::lacks_gpus(const Resources& wants) const {
  return !capacity_.gpus.empty() &&
         held().gpus + wants.gpus > static_cast<int>(capacity_.gpus.size());
}

bool Rules::fits(const Resources& wants) const {
  const Resources all = held();
  return all.cpus + wants.cpus <= capacity_.cpus &&
         all.memory_bytes + wants.memory_bytes <= capacity_.memory_bytes && !lacks_gpus(wants);
}

}  // namespace trainyard::sim
