#include "engine/slurm/scale_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/text.h"

namespace trainyard::engine::slurm {
namespace {

constexpr size_t kNamesMax = 4;
constexpr size_t kTroublesMax = 3;

bool did_not_come(const ScaleNode& node) {
  return node.is == ScaleNode::Is::off && !node.trouble.empty();
}

// "; n3 did not come: exit 1: no quota (again in 30 s)"
std::string troubles(const std::vector<ScaleNode>& nodes, SteadyTime now) {
  std::string words;
  size_t count = 0;
  for (const ScaleNode& node : nodes) {
    if (!did_not_come(node) || ++count > kTroublesMax) continue;
    words += "; " + node.name + " did not come: " + node.trouble;
    if (node.not_before > now) {
      words += " (tried again in " + time_in_words(node.not_before - now) + ")";
    }
  }
  if (count > kTroublesMax) words += fmt::format("; {} more did not come", count - kTroublesMax);
  return words;
}

std::string placed_words(const WantFacts& facts) {
  if (facts.nodes == 1 && facts.starting.size() == 1) {
    return "waits for a node: " + facts.starting.front() + " is starting";
  }
  if (std::ssize(facts.ready) == facts.nodes) {
    return "waits for Slurm to start it: " + nodes_in_words(facts.nodes) + " up (" +
           names_in_words(facts.ready) + ")";
  }
  std::vector<std::string> parts;
  if (!facts.ready.empty()) parts.push_back(fmt::format("{} up", facts.ready.size()));
  if (!facts.starting.empty()) {
    parts.push_back(
        fmt::format("{} starting ({})", facts.starting.size(), names_in_words(facts.starting)));
  }
  if (facts.in_use > 0) parts.push_back(fmt::format("{} in use", facts.in_use));
  return "waits for " + nodes_in_words(facts.nodes) + ": " + join(parts, ", ");
}

std::string unplaced_words(const WantFacts& facts, const ScaleLimits& limits,
                           const std::vector<ScaleNode>& nodes) {
  const std::string what = "waits for " + nodes_in_words(facts.nodes) + ": ";
  if (limits.paused) return what + "none is brought up while the compute is paused";
  int up = 0;
  int busy = 0;
  int others = 0;
  std::vector<std::string> unusable;
  for (const ScaleNode& node : nodes) {
    up += node.is == ScaleNode::Is::up ? 1 : 0;
    busy += node.is == ScaleNode::Is::up && node.busy ? 1 : 0;
    others += node.is == ScaleNode::Is::coming || node.is == ScaleNode::Is::leaving ? 1 : 0;
    if (node.is == ScaleNode::Is::unusable) {
      unusable.push_back(node.name + (node.trouble.empty() ? "" : ": " + node.trouble));
    }
  }
  std::string words = what + fmt::format("{} up, {} in use", up, busy);
  if (others > 0) words += fmt::format(", {} on the way up or down", others);
  words += facts.full ? fmt::format("; no more than {} may be on", limits.max_nodes)
                      : "; no other that fits can be brought up now";
  if (!unusable.empty()) words += "; unusable: " + names_in_words(unusable);
  return words;
}

}  // namespace

std::string nodes_in_words(int nodes) {
  return nodes == 1 ? "a node" : fmt::format("{} nodes", nodes);
}

std::string time_in_words(microseconds time) {
  const auto whole = std::chrono::ceil<seconds>(time);
  if (whole < seconds(120)) return fmt::format("{} s", whole.count());
  return fmt::format("{} min", std::chrono::ceil<std::chrono::minutes>(whole).count());
}

std::string names_in_words(const std::vector<std::string>& names) {
  if (names.size() <= kNamesMax) return join(names, ", ");
  return join(std::span(names).first(kNamesMax), ", ") +
         fmt::format(" and {} more", names.size() - kNamesMax);
}

std::string words_for_want(const WantFacts& facts, const ScaleLimits& limits,
                           const std::vector<ScaleNode>& nodes, SteadyTime now) {
  if (!facts.placed) return unplaced_words(facts, limits, nodes) + troubles(nodes, now);
  std::string words = placed_words(facts);
  const auto failed = std::ranges::count_if(nodes, did_not_come);
  if (facts.starting.empty() || failed == 0) return words;
  words += troubles(nodes, now);
  // Those that are begun last make good for those that did not come.
  const auto count = std::min(failed, std::ssize(facts.starting));
  const std::vector<std::string> instead(facts.starting.end() - count, facts.starting.end());
  return words + "; " + names_in_words(instead) + (count == 1 ? " is" : " are") +
         " started instead";
}

}  // namespace trainyard::engine::slurm
