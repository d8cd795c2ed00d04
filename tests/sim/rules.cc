#include "rules.h"

#include <algorithm>

namespace trainyard::sim {
namespace {

// Whether a policy has a run tried again after this end; written down once more on purpose.
bool is_to_be_tried_again(const RetryPolicy& policy, const AttemptEnd& end) {
  std::vector<std::string> causes = policy.causes;
  if (causes.empty()) causes = {"failed", "lost"};
  const auto wants = [&](const char* cause) {
    return std::find(causes.begin(), causes.end(), cause) != causes.end();
  };
  const bool failed = end.cause == EndCause::exited && end.exit_code != 0;
  return (failed && wants("failed")) || (end.cause == EndCause::lost && wants("lost")) ||
         (end.cause == EndCause::no_space && wants("no_space")) ||
         (end.cause == EndCause::time_limit && wants("time_limit"));
}

}  // namespace

void Rules::expect(bool holds, const std::string& rule) {
  if (!holds && broken_.empty()) broken_ = rule;
}

void Rules::check_run(const Run& run, const Nodes& nodes) {
  const std::string who = "run " + run.id.value + ": ";
  expect(run.version >= version(run.id), who + "its version went back");
  before_.emplace(run.id, seen_[run.id]);
  moved_ = true;
  seen_[run.id] = {.number = run.number,
                   .version = run.version,
                   .priority = run.spec.priority,
                   .resources = run.spec.resources,
                   .status = run.life.status,
                   .attempt = run.life.attempt,
                   .interactive = run.spec.interactive,
                   .parent = run.parent};
  check_events(run);
  check_attempts(run, nodes);
  check_retries(run);
  if (is_final(run.life.status)) check_over(run, nodes);
  expect(is_final(run.life.status) || !over_.contains(run.id), who + "a final status changed");
}

void Rules::check_events(const Run& run) {
  const std::string who = "run " + run.id.value + ": ";
  expect(!run.events.empty() && run.events.front().kind == "submitted", who + "no first event");
  int64_t seq = 0;
  WallTime before{};
  int ends = 0;
  bool canceled = false;
  for (const RunEventRecord& event : run.events) {
    expect(event.seq == ++seq, who + "its events have a gap");
    expect(event.at >= before, who + "time went back in its events");
    before = event.at;
    if (event.kind == "ended") ++ends;
    canceled = canceled || event.kind == "cancel_requested";
    expect(!canceled || event.kind != "queued", who + "tried again after its cancel");
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
    const bool may_live = newest && seen_.at(run.id).live();
    expect(attempt.ended.has_value() != may_live, who + "not one live attempt, the newest");
    expect(!attempt.end || attempt.end->ranks_started || !known_to_have_run_.contains(id),
           who + "its program may have run, yet that was forgotten");
    const auto node = nodes.find(id);
    if (node == nodes.end()) continue;
    expect(attempt.gpus == node->second.gpus(), who + "its GPUs are not those it was given");
    expect(attempt.cpu_seconds <= node->second.cpu_seconds(), who + "CPU seconds counted twice");
    const bool told = attempt.end && attempt.end->cause != EndCause::lost;
    if (told) {
      expect(attempt.cpu_seconds == node->second.cpu_seconds(), who + "CPU seconds lost");
      expect(attempt.end == node->second.end(), who + "its end is not what its node told");
      check_phases(run, node->second);
    }
  }
}

// Every phase that the node went through is in the history, once and in its order. The end of an
// attempt is there as what it made of the run: its end, or its way back to the queue.
void Rules::check_phases(const Run& run, const Node& node) {
  const bool last = node.id().number == run.life.attempt && is_final(run.life.status);
  std::vector<std::string> told;
  for (const Node::Entry& entry : node.journal()) {
    const bool kept =
        entry.report.kind != ReportKind::sample && (last || entry.report.kind != ReportKind::ended);
    if (kept) told.emplace_back(to_string(entry.report.kind));
  }
  std::vector<std::string> kept;
  for (const RunEventRecord& event : run.events) {
    const bool reported = report_kind_from(event.kind).has_value();
    if (reported && event.attempt == node.id().number) kept.push_back(event.kind);
  }
  expect(told == kept, "run " + run.id.value + ": a phase is missing or there twice");
}

// Lost before user code ran it is simply made again, twice; else as its policy says, and neither
// more nor less often.
void Rules::check_retries(const Run& run) {
  const std::string who = "run " + run.id.value + ": ";
  std::set<int> requeued;
  for (const RunEventRecord& event : run.events) {
    if (event.kind == "queued") requeued.insert(event.attempt);
  }
  int early = 0;
  int retried = 0;
  for (const Attempt& attempt : run.attempts) {
    if (!attempt.end) continue;
    const bool again = requeued.contains(attempt.number);
    expect(again || attempt.number == run.life.attempt, who + "an attempt after its last one");
    const bool ran = attempt.end->cause != EndCause::lost || attempt.end->ranks_started;
    if (!ran && ++early < kLostEarlyMax) {
      expect(again || run.life.cancel_asked, who + "lost early, and not made again");
      continue;
    }
    const bool wanted = is_to_be_tried_again(run.spec.retry, *attempt.end);
    expect(wanted || !again, who + "tried again after an end that its policy does not name");
    expect(again || !wanted || retried >= run.spec.retry.max || run.life.cancel_asked,
           who + "not tried again, though its policy says so");
    if (again) ++retried;
  }
  expect(retried <= run.spec.retry.max, who + "tried again more often than its policy says");
  expect(retried == run.life.retries, who + "its retries are miscounted");
}

void Rules::check_over(const Run& run, const Nodes& nodes) {
  const std::string who = "run " + run.id.value + ": ";
  const auto [seen, first] = over_.emplace(run.id, run);
  if (!first) {
    const Run& then = seen->second;
    expect(then.life == run.life && then.version == run.version && then.ended == run.ended &&
               then.outputs == run.outputs && then.events.size() == run.events.size(),
           who + "a final run changed");
    return;
  }
  expect(run.ended.has_value() && run.life.exit_code.has_value(), who + "over without an end");
  if (run.life.status == RunStatus::completed && !run.spec.interactive) {
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

void Rules::sampled(const Node& node, const std::vector<Report>& reports) {
  Sampled& all = sampled_[node.id()];
  for (const Report& report : reports) {
    if (report.kind != ReportKind::sample) continue;
    const int64_t number = report.seq > 0 ? report.seq : report.sample;
    if (number <= all.number) continue;
    all.number = number;
    all.reports.push_back(report);
  }
}

void Rules::go_back(const Rules& before) {
  seen_ = before.seen_;
  before_ = before.before_;
  over_ = before.over_;
  known_to_have_run_ = before.known_to_have_run_;
  acknowledged_ = before.acknowledged_;
  sampled_ = before.sampled_;
  moved_ = true;
}

int64_t Rules::version(const RunId& id) const {
  const auto found = seen_.find(id);
  return found == seen_.end() ? 0 : found->second.version;
}

bool Rules::may_tell(const AttemptId& attempt) const {
  const Seen& seen = seen_.at(attempt.run);
  if (attempt.number == 0) return !is_final(seen.status);
  return seen.live() && seen.attempt == attempt.number;
}

}  // namespace trainyard::sim
