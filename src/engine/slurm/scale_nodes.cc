#include "engine/slurm/scale_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"

namespace trainyard::engine::slurm {
namespace {

using Is = ScaleNode::Is;
using Kind = SortedNode::Kind;

constexpr std::string_view kMarkHead = "trainyard:";
// The reasons that Slurm itself gives a node that is not there.
constexpr std::string_view kAbsent[] = {"Not responding", "not responding",
                                        "Node unexpectedly rebooted", "ResumeTimeout reached"};

std::optional<Mark> our_mark(std::string_view reason, std::string_view server_id) {
  for (const Mark mark : {Mark::leaves, Mark::off}) {
    // Slurm, or an admin, may have written more behind it.
    if (reason.starts_with(mark_of(server_id, mark))) return mark;
  }
  return std::nullopt;
}

bool is_absent(std::string_view reason) {
  return reason.empty() || std::ranges::any_of(kAbsent, [&](std::string_view words) {
           return reason.starts_with(words);
         });
}

std::string out_of_use(const Node& node) {
  if (node.reason.starts_with(kMarkHead)) {
    return "another Trainyard server has taken it down (" + node.reason +
           "); to have it back here: scontrol update NodeName=" + node.name + " State=RESUME";
  }
  return node.state + (node.reason.empty() ? "" : ": " + node.reason);
}

}  // namespace

std::string mark_of(std::string_view server_id, Mark mark) {
  return std::string(kMarkHead) + std::string(server_id) +
         (mark == Mark::leaves ? ":leaves" : ":off");
}

SortedNode sort_node(const Node& node, std::string_view server_id) {
  const std::string& state = node.state;
  const std::optional<Mark> mark = our_mark(node.reason, server_id);
  if (node.powered_off) return {Kind::unusable, "Slurm itself powers it up and down"};
  if (state == "draining") {
    return mark ? SortedNode{Kind::called, {}} : SortedNode{Kind::unusable, out_of_use(node)};
  }
  if (state == "drained" || state == "down" || state == "unknown") {
    if (mark) return {*mark == Mark::off ? Kind::off : Kind::leaving, {}};
    if (state != "drained" && is_absent(node.reason)) return {Kind::silent, node.reason};
    return {Kind::unusable, out_of_use(node)};
  }
  if (state == "allocated" || state == "mixed" || state == "completing" || state == "planned") {
    return {Kind::busy, {}};
  }
  if (state == "idle") {
    return node.answers ? SortedNode{Kind::idle, {}} : SortedNode{Kind::silent, node.reason};
  }
  return {Kind::unusable, out_of_use(node)};
}

NodesSeen nodes_as_seen(const std::vector<Node>& nodes, std::string_view partition,
                        std::string_view server_id) {
  NodesSeen seen;
  for (const Node& node : nodes) {
    if (partition.empty() ? !node.default_partition : node.partition != partition) continue;
    const SortedNode sorted = sort_node(node, server_id);
    NodeState state;
    state.name = node.name;
    state.address = node.address;
    state.reason = sorted.why;
    state.cpus = node.cpus;
    state.memory_bytes = node.memory_mb << 20;
    state.gpus = node.gpus;
    switch (sorted.kind) {
      case Kind::idle:
        state.is = NodeState::Is::idle;
        break;
      case Kind::busy:
        state.is = NodeState::Is::running;
        break;
      case Kind::silent:
      case Kind::off:
      case Kind::leaving:
        state.is = NodeState::Is::off;
        break;
      case Kind::called:
      case Kind::unusable:
        state.is = NodeState::Is::unusable;
        break;
    }
    if (state.is == NodeState::Is::idle || state.is == NodeState::Is::running) ++seen.wanted;
    seen.nodes.push_back(std::move(state));
  }
  return seen;
}

// ---- looking ----

void ScaleNodes::saw(const std::vector<Node>& nodes,
                     const std::map<std::string, std::string>& others, SteadyTime begun,
                     SteadyTime now) {
  order_.clear();
  std::set<std::string> there;
  for (const Node& node : nodes) {
    if (!there.insert(node.name).second) continue;  // In several partitions.
    order_.push_back(node.name);
    Entry& entry = entries_[node.name];
    if (entry.changed > begun) continue;  // It tells of the time before.
    entry.seen = node;
    entry.sorted = sort_node(node, server_id_);
    const auto other = others.find(node.name);
    entry.other = other == others.end() ? "" : other->second;
    sort(entry, now);
  }
  std::erase_if(entries_, [&](const auto& item) {
    return !there.contains(item.first) && item.second.work == Work::none;
  });
}

void ScaleNodes::sort(Entry& entry, SteadyTime now) {
  const Kind kind = entry.sorted.kind;
  const bool up = kind == Kind::idle || kind == Kind::busy;
  if (up || kind == Kind::called) {
    entry.heard = now;
    if (kind != Kind::idle || entry.is != Is::up) entry.since = now;
  }
  switch (entry.work) {
    case Work::up:
      return set(entry, up ? Is::up : Is::coming, now);
    case Work::awaited:
      if (!up && now - entry.work_since >= patience_.come) {
        return did_not_come(entry.seen.name, entry,
                            "Slurm did not see it within " + format_duration(patience_.come) +
                                " of its program's end",
                            now);
      }
      if (!up) return set(entry, Is::coming, now);
      entry.work = Work::none;
      entry.failures = 0;
      entry.not_before = {};
      entry.trouble.clear();
      return set(entry, Is::up, now);
    case Work::down:
      return set(entry, entry.cleaned ? Is::off : Is::leaving, now);
    case Work::none:
      break;
  }
  if (entry.lost) return set(entry, Is::off, now);
  switch (kind) {
    case Kind::idle:
    case Kind::busy:
    case Kind::called:
      return set(entry, Is::up, now);
    case Kind::silent:
      // One missed answer makes no node a lost one.
      if (entry.is == Is::up && now - entry.heard < patience_.silent) return;
      set(entry, Is::off, now);
      // Slurm itself has given it up, and with it the jobs that were there.
      if (entry.heard == SteadyTime{} || entry.seen.state != "down") return;
      if (now - entry.heard < patience_.gone || !entry.other.empty()) return;
      entry.heard = {};
      entry.lost = true;
      told_.push_back("node " + entry.seen.name + " does not answer and is taken down");
      return;
    case Kind::off:
      return set(entry, Is::off, now);
    case Kind::leaving:
      return set(entry, Is::leaving, now);
    case Kind::unusable:
      return set(entry, Is::unusable, now);
  }
}

void ScaleNodes::set(Entry& entry, Is is, SteadyTime now) {
  if (entry.is == is) return;
  entry.is = is;
  entry.since = now;
  if (is == Is::up) {
    entry.failures = 0;
    entry.trouble.clear();
    entry.not_before = {};
  }
}

// ---- telling ----

std::vector<ScaleNode> ScaleNodes::view(SteadyTime now) const {
  std::vector<ScaleNode> nodes;
  for (const std::string& name : order_) {
    const Entry& entry = entries_.at(name);
    const bool silent = entry.is == Is::up && entry.sorted.kind != Kind::idle;
    ScaleNode node;
    node.name = name;
    node.is = entry.is;
    node.since = entry.since;
    node.busy = silent || !entry.other.empty();
    node.at_work = entry.work != Work::none || entry.lost;
    node.slow = entry.work == Work::up && now - entry.work_since >= patience_.slow;
    node.not_before = entry.not_before;
    node.trouble = entry.trouble;
    node.cpus = entry.seen.cpus;
    node.cpus_free = entry.sorted.kind == Kind::idle || entry.sorted.kind == Kind::busy
                         ? entry.seen.cpus_free
                         : 0;
    node.memory_bytes = entry.seen.memory_mb << 20;
    node.gpus = entry.seen.gpus;
    if (entry.is == Is::unusable) node.trouble = entry.sorted.why;
    if (!entry.other.empty() && entry.is != Is::up) {
      node.is = Is::unusable;
      node.trouble = "the compute " + entry.other + " brings it up and down";
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<NodeState> ScaleNodes::states(SteadyTime now) const {
  using State = NodeState::Is;
  std::vector<NodeState> states;
  for (const ScaleNode& node : view(now)) {
    const Entry& entry = entries_.at(node.name);
    NodeState state;
    state.name = node.name;
    state.address = entry.seen.address;
    state.reason = node.trouble;
    state.cpus = node.cpus;
    state.memory_bytes = node.memory_bytes;
    state.gpus = node.gpus;
    switch (node.is) {
      case Is::off:
        state.is = node.trouble.empty() ? State::off : State::unusable;
        if (!node.trouble.empty()) state.reason = "did not come: " + node.trouble;
        break;
      case Is::coming:
        state.is = State::starting;
        state.reason =
            entry.work == Work::up
                ? "its program has run for " +
                      format_duration(std::chrono::floor<seconds>(now - entry.work_since))
                : "its program has ended; Slurm does not see it yet";
        break;
      case Is::up:
        state.is = entry.sorted.kind == Kind::busy && entry.seen.state != "planned" ? State::running
                                                                                    : State::idle;
        break;
      case Is::leaving:
        state.is = State::leaving;
        break;
      case Is::unusable:
        state.is = State::unusable;
        break;
    }
    states.push_back(std::move(state));
  }
  return states;
}

bool ScaleNodes::anything_on() const {
  return std::ranges::any_of(entries_, [](const auto& item) {
    const Is is = item.second.is;
    return is == Is::up || is == Is::coming || is == Is::leaving;
  });
}

bool ScaleNodes::anything_due() const {
  return std::ranges::any_of(entries_,
                             [](const auto& item) { return item.second.work != Work::none; });
}

// ---- programs ----

void ScaleNodes::begin_up(const std::string& name, SteadyTime now) {
  Entry& entry = entries_.at(name);
  entry.work = Work::up;
  entry.work_since = entry.changed = now;
  set(entry, Is::coming, now);
}

void ScaleNodes::ended_up(const std::string& name, const Status& ended, SteadyTime now) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.work != Work::up) return;
  Entry& entry = found->second;
  entry.changed = now;
  if (!ended) return did_not_come(name, entry, ended.error().message, now);
  entry.work = Work::awaited;
  entry.work_since = now;
  entry.resumed = now;
}

void ScaleNodes::did_not_come(const std::string& name, Entry& entry, std::string why,
                              SteadyTime now) {
  wait_longer(entry, now);
  entry.work = Work::none;
  entry.lost = true;
  entry.trouble = std::move(why);
  told_.push_back("node " + name + " did not come: " + entry.trouble);
  set(entry, Is::off, now);
}

void ScaleNodes::wait_longer(Entry& entry, SteadyTime now) {
  const auto factor = 1 << std::min(entry.failures++, 12);
  entry.not_before = now + std::min(patience_.retry * factor, patience_.retry_max);
}

void ScaleNodes::begin_down(const std::string& name, SteadyTime now) {
  Entry& entry = entries_.at(name);
  entry.cleaned = entry.lost;
  entry.lost = false;
  entry.work = Work::down;
  entry.work_since = entry.changed = now;
  set(entry, entry.cleaned ? Is::off : Is::leaving, now);
}

void ScaleNodes::ended_down(const std::string& name, const Result<Left>& left, SteadyTime now) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.work != Work::down) return;
  Entry& entry = found->second;
  entry.changed = now;
  entry.work = Work::none;
  const bool cleaned = std::exchange(entry.cleaned, false);
  if (!left) {
    told_.push_back("node " + name + " could not be taken down: " + left.error().message);
    if (cleaned) return;  // Why it did not come says more; Slurm has it marked as leaving.
    wait_longer(entry, now);
    entry.trouble = "could not be taken down: " + left.error().message;
    return set(entry, Is::leaving, now);
  }
  if (*left == Left::in_use) return set(entry, Is::up, now);  // A job was quicker than we.
  if (!cleaned) {
    entry.failures = 0;
    entry.trouble.clear();
    entry.not_before = {};
  }
  set(entry, Is::off, now);
}

std::vector<std::string> ScaleNodes::take_resumes(SteadyTime now) {
  std::vector<std::string> names;
  for (auto& [name, entry] : entries_) {
    const bool kept_out = entry.seen.state == "down" || entry.seen.state == "drained";
    const bool awaited = entry.work == Work::awaited && kept_out;
    const bool called = entry.work == Work::none && entry.sorted.kind == Kind::called;
    if ((!awaited && !called) || now - entry.resumed < patience_.resume) continue;
    entry.resumed = now;
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> ScaleNodes::take_lost() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (entry.lost && entry.work == Work::none) names.push_back(name);
  }
  return names;
}

}  // namespace trainyard::engine::slurm
