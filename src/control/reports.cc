#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "control/all_runs.h"
#include "store/attempt_nodes.h"
#include "store/metrics.h"
#include "store/run_queries.h"

namespace trainyard::control {
namespace {

// One call's reports being taken, inside the transaction.
struct Taking {
  db::Transaction& transaction;
  store::RunHead& head;
  store::AttemptRow& row;
  WallTime now;
  std::optional<Applied> applied;  // By the last of them that changed the run.
  bool over = false;
};

double finite(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0; }

// When it happened by our clock, and not before the attempt was placed: the age of a report is as
// true as the clock of its node. add_event() sees to it that time does not go back within a run.
WallTime time_of(const Report& report, const Taking& taking) {
  const microseconds longest = std::max(microseconds(0), taking.now - taking.row.attempt.placed);
  return taking.now - std::clamp(microseconds(report.age_us), microseconds(0), longest);
}

void take_usage(Attempt& attempt, double cpu_seconds, int64_t memory_peak) {
  // The largest seen: a late sample does not take back what a later one has counted.
  attempt.cpu_seconds = std::max(attempt.cpu_seconds, finite(cpu_seconds));
  attempt.memory_peak_bytes = std::max(attempt.memory_peak_bytes, memory_peak);
}

// A phase only goes forward; one that would go back is taken and says nothing new.
bool is_forward(std::string_view phase, ReportKind kind) {
  if (phase.empty()) return true;
  const Result<ReportKind> before = report_kind_from(phase);
  return !before || kind > *before;
}

Status take_phase(Taking& taking, const Report& report) {
  if (!is_forward(taking.row.phase, report.kind)) return {};
  const WallTime at = std::max(time_of(report, taking), taking.head.event_at);
  if (report.kind == ReportKind::running) {
    taking.row.attempt.node = report.node;
    taking.row.attempt.started = at;
    if (!taking.head.started) taking.head.started = at;
  }
  TRY_SET(taking.applied,
          apply(taking.transaction, taking.head, Reported{taking.row.attempt.number, report.kind},
                {.at = at, .text = report.detail}));
  taking.row.phase = to_string(report.kind);
  return {};
}

Status take_end(Taking& taking, const Report& report) {
  Attempt& attempt = taking.row.attempt;
  AttemptEnd end = report.end;
  end.cpu_seconds = finite(end.cpu_seconds);
  if (!end.outputs.empty()) taking.head.outputs = end.outputs;
  TRY_SET(taking.applied, apply(taking.transaction, taking.head, Ended{attempt.number, end},
                                {.at = time_of(report, taking), .text = end.error}));
  taking.row.phase = to_string(ReportKind::ended);
  attempt.ended = taking.head.event_at;
  take_usage(attempt, end.cpu_seconds, end.memory_peak_bytes);
  attempt.memory_bytes = 0;
  attempt.end = std::move(end);
  taking.over = true;
  return {};
}

// The samples of a run are kept ever further apart: a month of them, one every 10 s, makes some
// 3,600 points of each series instead of 260,000.
constexpr int kSamplesPerAge = 500;

bool keeps_sample(WallTime started, std::optional<WallTime> last, WallTime at) {
  return !last || at - *last >= (at - started) / kSamplesPerAge;
}

// As metrics of the run, by the names MLflow gives them. A device is named by its place among the
// run's own: the script sees it by that number too.
Status take_gpus(Taking& taking, const Report& report, const std::string& prefix = "system/") {
  if (report.gpus.empty()) return {};
  const WallTime at = time_of(report, taking);
  TRY_SET(const std::optional<WallTime> last,
          store::last_point_time(taking.transaction.db(), taking.head.number,
                                 prefix + "gpu_0_utilization_percentage"));
  if (!keeps_sample(taking.head.started.value_or(taking.head.created), last, at)) return {};
  store::PointBatch points(taking.head.number);
  const auto add = [&](const std::string& name, double value) {
    if (!std::isfinite(value) || value < 0) return;
    points.add(name, "scalar", {.at = at, .value = value, .text = {}});
  };
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    const GpuSample& gpu = report.gpus[i];
    const std::string name = prefix + "gpu_" + std::to_string(i);
    add(name + "_utilization_percentage", gpu.utilization);
    add(name + "_memory_usage_megabytes", static_cast<double>(gpu.memory_bytes) / 1e6);
    add(name + "_power_usage_watts", gpu.power_watts);
  }
  return points.write(taking.transaction);
}

// All that the attempt's only node tells.
Status take_one(Taking& taking, const Report& report) {
  switch (report.kind) {
    case ReportKind::preparing:
    case ReportKind::building:
    case ReportKind::built:
    case ReportKind::ready:
    case ReportKind::starting:
    case ReportKind::running:
    case ReportKind::finalizing:
      return take_phase(taking, report);
    case ReportKind::sample:
      take_usage(taking.row.attempt, report.cpu_seconds, report.memory_peak_bytes);
      taking.row.attempt.memory_bytes = report.memory_bytes;
      return take_gpus(taking, report);
    case ReportKind::rank_failed:
      return {};
    case ReportKind::ended:
      return take_end(taking, report);
  }
  return {};
}

// ---- several nodes ----

// An attempt's nodes while one of them reports.
struct Gang {
  std::vector<NodePart> parts;
  size_t node = 0;  // The one that reports.
  const std::optional<MergedOutputs>& merged;
  OutputsToMerge to_merge;  // Asked for in vain.

  NodePart& mine() { return parts[node]; }
};

std::string names_of(std::span<const NodePart> parts) {
  std::vector<std::string> names;
  for (const NodePart& part : parts) {
    names.push_back(part.host.name.empty() ? std::to_string(part.node) : part.host.name);
  }
  return join(names, ",");
}

// The run is as far as its last node; `ready` is a word between supervisors and us.
Status reach(Taking& taking, const Gang& gang, const Report& report) {
  const std::optional<ReportKind> phase = phase_of(gang.parts);
  if (!phase || !is_forward(taking.row.phase, *phase)) return {};
  if (*phase == ReportKind::ready) {
    taking.row.phase = to_string(*phase);
    return {};
  }
  Report all = report;
  all.kind = *phase;
  all.node = names_of(gang.parts);
  all.detail = *phase == ReportKind::starting
                   ? "all " + std::to_string(gang.parts.size()) + " nodes are ready"
                   : report.detail;
  return take_phase(taking, all);
}

void add_usage(Taking& taking, const Gang& gang) {
  double cpu_seconds = 0;
  int64_t peak = 0;
  int64_t memory = 0;
  for (const NodePart& part : gang.parts) {
    cpu_seconds += part.cpu_seconds;
    peak += part.memory_peak_bytes;
    memory += part.end ? 0 : part.memory_bytes;
  }
  take_usage(taking.row.attempt, cpu_seconds, peak);
  taking.row.attempt.memory_bytes = memory;
}

// Empty where one tree is all there is.
std::vector<NodeOutputs> differing_outputs(std::span<const NodePart> parts, std::string& only) {
  std::vector<NodeOutputs> all;
  for (const NodePart& part : parts) {
    if (part.end && !part.end->outputs.empty()) all.push_back({part.node, part.end->outputs});
  }
  only = all.empty() ? "" : all.front().tree;
  const bool same = std::ranges::all_of(all, [&](const auto& one) { return one.tree == only; });
  return same ? std::vector<NodeOutputs>() : all;
}

Status finish(Taking& taking, Gang& gang, const Report& last) {
  Report all = last;
  all.end = combine(gang.parts);
  const std::vector<NodeOutputs> outputs = differing_outputs(gang.parts, all.end.outputs);
  if (!outputs.empty() && !gang.merged) {
    // The blobs are not to be worked with inside a transaction; it is taken back.
    gang.to_merge = {taking.head.outputs, outputs};
    return fail(ErrorKind::conflict, "the nodes' outputs are not merged yet");
  }
  if (!outputs.empty()) {
    all.end.outputs = gang.merged->tree;
    if (!gang.merged->warning.empty()) all.end.warnings.push_back(gang.merged->warning);
  }
  return take_end(taking, all);
}

Status take_part(Taking& taking, Gang& gang, const Report& report) {
  NodePart& mine = gang.mine();
  switch (report.kind) {
    case ReportKind::ready:
      mine.host = report.host;
      [[fallthrough]];
    case ReportKind::preparing:
    case ReportKind::building:
    case ReportKind::built:
    case ReportKind::starting:
    case ReportKind::running:
    case ReportKind::finalizing:
      mine.phase = mine.phase ? std::max(*mine.phase, report.kind) : report.kind;
      return reach(taking, gang, report);
    case ReportKind::sample:
      mine.cpu_seconds = std::max(mine.cpu_seconds, finite(report.cpu_seconds));
      mine.memory_bytes = report.memory_bytes;
      mine.memory_peak_bytes = std::max(mine.memory_peak_bytes, report.memory_peak_bytes);
      add_usage(taking, gang);
      return take_gpus(taking, report, "system/node_" + std::to_string(mine.node) + "/");
    case ReportKind::rank_failed:
      if (!mine.failed) {
        mine.failed = report.exit;
        mine.failed_at = time_of(report, taking);
      }
      return {};
    case ReportKind::ended:
      mine.end = report.end;
      mine.end->cpu_seconds = finite(mine.end->cpu_seconds);
      if (is_over(gang.parts)) return finish(taking, gang, report);
      return reach(taking, gang, report);
  }
  return {};
}

// How far the reports of a node are taken.
struct Progress {
  int64_t& seq;
  int64_t& sample;
  bool may_end = true;           // false: an end is left, see AttemptNode::epoch.
  const Report* left = nullptr;  // The first that is not taken.
};

// Takes what is new and follows what was taken, in order: a report names the one before it. What is
// there already is skipped; what lies beyond a gap is left, and the sender learns how far we are.
template <class Take>
Status take_new(std::span<const Report> reports, Progress& progress, Take take) {
  std::vector<const Report*> sorted;
  for (const Report& report : reports) sorted.push_back(&report);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Report* a, const Report* b) { return a->seq < b->seq; });
  for (const Report* report : sorted) {
    const bool numbered_apart = report->kind == ReportKind::sample && report->seq == 0;
    int64_t& taken = numbered_apart ? progress.sample : progress.seq;
    const int64_t number = numbered_apart ? report->sample : report->seq;
    if (number <= taken) continue;
    const bool early = !numbered_apart && report->after > taken;
    if (early || (report->kind == ReportKind::ended && !progress.may_end)) {
      progress.left = report;
      break;
    }
    TRY_SET(const bool more, take(*report));
    taken = number;
    if (!more) break;
  }
  return {};
}

// The first supervisor that reports for a node has claimed it.
Status claim(std::string& instance, const AttemptNode& from) {
  if (from.instance.empty() || from.instance == instance) return {};
  if (instance.empty()) {
    instance = from.instance;
    return {};
  }
  return fail(ErrorKind::conflict, "another supervisor carries node " + std::to_string(from.node) +
                                       " of attempt " + from.attempt.str());
}

Status check_node(int node, int nodes) {
  if (node >= 0 && node < nodes) return {};
  return fail(ErrorKind::invalid, "the run has no node " + std::to_string(node));
}

}  // namespace

Status AllRuns::take_reports(db::Transaction& transaction, const AttemptNode& from,
                             std::span<const Report> reports,
                             const std::optional<MergedOutputs>& merged, Taken& taken) {
  const int number = from.attempt.number;
  TRY_SET(store::RunHead head, store::run_head(transaction.db(), from.attempt.run));
  TRY(check_live(head, from.attempt));
  TRY(check_node(from.node, head.nodes));
  TRY_SET(store::AttemptRow row, store::attempt_row(transaction.db(), head.number, number));
  Taking taking{transaction, head, row, parts_.clock.wall()};
  taken = {.nodes = head.nodes};
  const bool may_end = from.epoch.empty() || from.epoch == epoch_;
  if (head.nodes == 1) {
    taken.rival = true;
    TRY(claim(row.instance, from));
    taken.rival = false;
    Progress progress{row.report_seq, row.sample_seq, may_end};
    const auto take = [&](const Report& report) -> Result<bool> {
      TRY(take_one(taking, report));
      return !taking.over;
    };
    TRY(take_new(reports, progress, take));
    taken.note(progress.left, row.report_seq);
    taken.answer.seq_acknowledged = row.report_seq;
    TRY(store::save_attempt(transaction, head.number, row));
  } else {
    Gang gang{.node = static_cast<size_t>(from.node), .merged = merged};
    TRY_SET(gang.parts, store::attempt_nodes(transaction.db(), head.number, number, head.nodes));
    taken.rival = true;
    TRY(claim(gang.mine().instance, from));
    taken.rival = false;
    Progress progress{gang.mine().report_seq, gang.mine().sample_seq, may_end};
    const Orders before = orders_of(gang.parts, -1);
    const auto take = [&](const Report& report) -> Result<bool> {
      TRY(take_part(taking, gang, report));
      return !gang.mine().end;
    };
    const Status status = take_new(reports, progress, take);
    taken.to_merge = std::move(gang.to_merge);
    TRY(status);
    taken.note(progress.left, progress.seq);
    TRY(store::save_attempt_node(transaction, head.number, number, gang.mine()));
    TRY(store::save_attempt(transaction, head.number, row));
    taken.answer = orders_of(gang.parts, from.node);
    const Orders after = orders_of(gang.parts, -1);
    taken.wake = after.go != before.go || after.stop != before.stop || after.done != before.done;
  }
  taken.answer.cancel = head.life.cancel_asked;
  taken.answer.epoch = epoch_;
  taken.finalizing = row.phase == to_string(ReportKind::finalizing);
  taken.applied = std::move(taking.applied);
  return {};
}

void AllRuns::Taken::note(const Report* left, int64_t seq) {
  if (left == nullptr) return;
  stuck = "report " + std::to_string(left->seq) + " cannot be taken after report " +
          std::to_string(seq);
}

// What cannot be merged is kept as far as one node has it: an end must not be held up.
std::optional<MergedOutputs> AllRuns::merge(const OutputsToMerge& outputs) {
  Result<MergedOutputs> merged = parts_.merge_outputs(outputs);
  if (merged) return *std::move(merged);
  parts_.log.error("outputs not merged", {{"error", merged.error().message}});
  const NodeOutputs& first = outputs.nodes.front();
  return MergedOutputs{first.tree, "outputs of node " + std::to_string(first.node) +
                                       " alone are kept: " + merged.error().message};
}

Result<Orders> AllRuns::report(const AttemptNode& from, std::span<const Report> reports) {
  Taken taken;
  const auto note_heard = [&](int nodes) {
    const SteadyTime now = parts_.clock.steady();
    const bool opens = ledger_.with([&](Ledger& ledger) {
      if (!reports.empty()) ledger.progressed(from.attempt, now, from.node, taken.stuck);
      if (taken.finalizing) ledger.finalizing(from.attempt);
      return ledger.heard(from.attempt, now, from.node, nodes);
    });
    if (opens) bell_->ring();
  };
  if (reports.empty()) {
    int nodes = 1;
    TRY_SET(Orders now, orders(from, nodes));
    note_heard(nodes);
    return now;
  }
  // An end must be on the disk before it is acknowledged: the supervisor's journal, which could
  // tell it again, is then removed. The rest can be told again by that journal after a power
  // failure.
  const bool ends = std::any_of(reports.begin(), reports.end(),
                                [](const Report& r) { return r.kind == ReportKind::ended; });
  std::optional<MergedOutputs> merged;
  while (true) {
    const Status written = parts_.store.write(
        ends ? Durable::yes : Durable::no, [&](db::Transaction& transaction) -> Status {
          return take_reports(transaction, from, reports, merged, taken);
        });
    if (written) break;
    if (taken.rival && parts_.note) {
      parts_.note(from.attempt.run, "a second supervisor was refused: " + written.error().message);
    }
    if (taken.to_merge.nodes.empty() || merged) return std::unexpected(written.error());
    merged = merge(taken.to_merge);
  }
  note_heard(taken.nodes);
  if (taken.applied) settle(*taken.applied);
  if (taken.wake && parts_.changed) parts_.changed(from.attempt.run);
  return taken.answer;
}

Result<Assignment> AllRuns::assignment(const AttemptId& attempt, std::string_view token, int node) {
  Claim claim{.run = {}, .attempt = attempt, .secret = std::string(token), .gpus = {}};
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, attempt.run));
    TRY(check_live(head, attempt));
    TRY_SET(claim.run, store::load_run(db, attempt.run, store::Detail::brief));
    TRY_SET(const store::AttemptRow row, store::attempt_row(db, head.number, attempt.number));
    claim.outage_s = row.outage_s;
    return {};
  };
  TRY(parts_.store.read(look));
  TRY(check_node(node, claim.run.spec.nodes));
  Assignment told = assignment(claim, engine_of(queue_of(claim.run.spec)).get());
  told.gives_gpus = false;  // Where a scheduler does, its own variables say which.
  told.node = node;
  // Nothing of this machine is there.
  told.server_socket.clear();
  told.blobs.clear();
  told.environments.clear();
  return told;
}

Result<Orders> AllRuns::orders(const AttemptNode& of) {
  int nodes = 1;
  return orders(of, nodes);
}

Result<Orders> AllRuns::orders(const AttemptNode& of, int& nodes) {
  Orders answer;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, of.attempt.run));
    TRY(check_live(head, of.attempt));
    TRY(check_node(of.node, head.nodes));
    nodes = head.nodes;
    if (nodes == 1) {
      TRY_SET(const store::AttemptRow row, store::attempt_row(db, head.number, of.attempt.number));
      std::string instance = row.instance;
      TRY(claim(instance, of));
      answer.seq_acknowledged = row.report_seq;
    } else {
      TRY_SET(const std::vector<NodePart> parts,
              store::attempt_nodes(db, head.number, of.attempt.number, nodes));
      std::string instance = parts[static_cast<size_t>(of.node)].instance;
      TRY(claim(instance, of));
      answer = orders_of(parts, of.node);
    }
    answer.cancel = head.life.cancel_asked;
    answer.epoch = epoch_;
    return {};
  };
  TRY(parts_.store.read(look));
  return answer;
}

}  // namespace trainyard::control
