#include "rules.h"

#include <cmath>

namespace trainyard::sim {

void Rules::expect(bool holds, const std::string& rule) {
  if (!holds && broken_.empty()) broken_ = rule;
}

void Rules::check_run(const Run& run, const Nodes& nodes) {
  const std::string who = "run " + run.id.value + ": ";
  expect(run.version >= versions_[run.id], who + "its version went back");
  versions_[run.id] = run.version;
  check_events(run);
  check_attempts(run, nodes);
  check_order(run);
  if (is_final(run.life.status)) check_over(run, nodes);
  expect(is_final(run.life.status) || !over_.contains(run.id), who + "a final status changed");
}

void Rules::check_events(const Run& run) {
  const std::string who = "run " + run.id.value + ": ";
  expect(!run.events.empty() && run.events.front().kind == "submitted", who + "no first event");
  int64_t seq = 0;
  WallTime before{};
  int ends = 0;
  for (const RunEventRecord& event : run.events) {
    expect(event.seq == ++seq, who + "its events have a gap");
    expect(event.at >= before, who + "time went back in its events");
    before = event.at;
    if (event.kind == "ended") ++ends;
  }
  const bool over = is_final(run.life.status);
  expect(ends == (over ? 1 : 0), who + std::to_string(ends) + " ends");
  if (over) expect(run.events.back().kind == "ended", who + "something happened after its end");
}

void Rules::check_attempts(const Run& run, const Nodes& nodes) {
  const std::string who = "run " + run.id.value + ": ";
  expect(static_cast<int>(run.attempts.size()) == run.life.attempt, who + "attempts miscounted");
  int number = 0;
  for (const Attempt& attempt : run.attempts) {
    const AttemptId id{run.id, ++number};
    expect(attempt.number == number, who + "an attempt is missing");
    const bool newest = number == run.life.attempt;
    const bool may_live = newest && run.life.status >= RunStatus::provisioning &&
                          run.life.status <= RunStatus::cancel_requested;
    expect(attempt.ended.has_value() != may_live, who + "not one live attempt, the newest");
    expect(newest || !known_to_have_run_.contains(id),
           who + "made again although its program may have run");
    const auto node = nodes.find(id);
    if (node == nodes.end()) continue;
    expect(attempt.cpu_seconds <= node->second.cpu_seconds(), who + "CPU seconds counted twice");
    const bool told = attempt.end && attempt.end->cause != EndCause::lost;
    if (told) {
      expect(attempt.cpu_seconds == node->second.cpu_seconds(), who + "CPU seconds lost");
      expect(attempt.end == node->second.end(), who + "its end is not what its node told");
      check_phases(run, node->second);
    }
  }
}

// Every phase that the node went through is in the history, once and in its order.
void Rules::check_phases(const Run& run, const Node& node) {
  std::vector<std::string> told;
  for (const Node::Entry& entry : node.journal()) {
    if (entry.report.kind != ReportKind::sample) told.emplace_back(to_string(entry.report.kind));
  }
  std::vector<std::string> kept;
  for (const RunEventRecord& event : run.events) {
    const bool reported = report_kind_from(event.kind).has_value();
    if (reported && event.attempt == node.id().number) kept.push_back(event.kind);
  }
  expect(told == kept, "run " + run.id.value + ": a phase is missing or there twice");
}

void Rules::check_over(const Run& run, const Nodes& nodes) {
  const std::string who = "run " + run.id.value + ": ";
  never_claimed_.erase(run.number);
  const auto [seen, first] = over_.emplace(run.id, run);
  if (!first) {
    const Run& then = seen->second;
    expect(then.life == run.life && then.version == run.version && then.ended == run.ended &&
               then.outputs == run.outputs && then.events.size() == run.events.size(),
           who + "a final run changed");
    return;
  }
  expect(run.ended.has_value() && run.life.exit_code.has_value(), who + "over without an end");
  if (run.life.status == RunStatus::completed) {
    const auto node = nodes.find({run.id, run.life.attempt});
    const bool true_end = node != nodes.end() && node->second.end() &&
                          node->second.end()->cause == EndCause::exited &&
                          node->second.end()->exit_code == 0;
    expect(true_end, who + "completed, yet its program did not");
  }
  for (const auto& [id, node] : nodes) {
    if (id.run == run.id) expect(!node.ranks(), who + "over, yet its processes run");
  }
}

// First come, first served: a first attempt begins only when no earlier run still waits for its
// own.
void Rules::check_order(const Run& run) {
  if (run.life.status == RunStatus::queued && run.life.attempt == 0) {
    never_claimed_.emplace(run.number, run.id);
    return;
  }
  const bool claimed = never_claimed_.erase(run.number) > 0 && run.life.attempt > 0;
  if (!claimed || never_claimed_.empty()) return;
  expect(never_claimed_.begin()->first > run.number,
         "run " + run.id.value + " overtook " + never_claimed_.begin()->second.value);
}

void Rules::check_machine(const Nodes& nodes, int cpus, int64_t memory_bytes) {
  int used = 0;
  int64_t memory = 0;
  std::set<RunId> running;
  for (const auto& [id, node] : nodes) {
    if (!node.alive() || node.ended()) continue;
    used += node.resources().cpus;
    memory += node.resources().memory_bytes;
    expect(running.insert(id.run).second, "run " + id.run.value + " runs on two nodes");
  }
  expect(used <= cpus, std::to_string(used) + " of " + std::to_string(cpus) + " CPUs given out");
  expect(memory <= memory_bytes, "more memory given out than there is");
}

void Rules::acknowledged(const Node& node, int64_t seq) {
  int64_t& last = acknowledged_[node.id()];
  expect(seq >= last, "attempt " + node.id().str() + ": what was acknowledged was lost");
  last = std::max(last, seq);
  for (const Node::Entry& entry : node.journal()) {
    if (entry.report.seq > last) break;
    if (entry.report.kind >= ReportKind::starting && entry.report.kind <= ReportKind::finalizing) {
      known_to_have_run_.insert(node.id());
    }
  }
}

}  // namespace trainyard::sim
