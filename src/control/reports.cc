#include <algorithm>
#include <cmath>

#include "control/all_runs.h"
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

// When it happened by our clock. add_event() sees to it that time does not go back within a run.
WallTime time_of(const Report& report, WallTime now) {
  return now - std::clamp(microseconds(report.age_us), microseconds(0), now.time_since_epoch());
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
  const WallTime at = std::max(time_of(report, taking.now), taking.head.event_at);
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
                                {.at = time_of(report, taking.now), .text = end.error}));
  taking.row.phase = to_string(ReportKind::ended);
  attempt.ended = taking.head.event_at;
  take_usage(attempt, end.cpu_seconds, end.memory_peak_bytes);
  attempt.memory_bytes = 0;
  attempt.end = std::move(end);
  taking.over = true;
  return {};
}

// As metrics of the run, by the names MLflow gives them. A device is named by its place among the
// run's own: the script sees it by that number too.
Status take_gpus(Taking& taking, const Report& report) {
  if (report.gpus.empty()) return {};
  store::PointBatch points(taking.head.number);
  const auto add = [&](const std::string& name, double value) {
    if (!std::isfinite(value) || value < 0) return;
    points.add(name, "scalar", {.at = time_of(report, taking.now), .value = value, .text = {}});
  };
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    const GpuSample& gpu = report.gpus[i];
    const std::string name = "system/gpu_" + std::to_string(i);
    add(name + "_utilization_percentage", gpu.utilization);
    add(name + "_memory_usage_megabytes", static_cast<double>(gpu.memory_bytes) / 1e6);
    add(name + "_power_usage_watts", gpu.power_watts);
  }
  return points.write(taking.transaction);
}

Status take_one(Taking& taking, const Report& report) {
  switch (report.kind) {
    case ReportKind::preparing:
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

// What follows the last one taken without a gap, in order; what is there already is skipped, what
// lies beyond a gap is left: the sender learns how far we are and sends it again.
Status take_new(Taking& taking, std::span<const Report> reports) {
  std::vector<const Report*> sorted;
  for (const Report& report : reports) sorted.push_back(&report);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Report* a, const Report* b) { return a->seq < b->seq; });
  bool any = false;
  for (const Report* report : sorted) {
    if (report->seq <= taking.row.report_seq) continue;
    if (report->seq != taking.row.report_seq + 1 || taking.over) break;
    TRY(take_one(taking, *report));
    taking.row.report_seq = report->seq;
    any = true;
  }
  if (!any) return {};
  return store::save_attempt(taking.transaction, taking.head.number, taking.row);
}

}  // namespace

Result<Orders> AllRuns::report(const AttemptId& attempt, std::span<const Report> reports) {
  if (reports.empty()) {
    TRY_SET(const Orders now, orders(attempt));
    ledger_.with([&](Ledger& ledger) { ledger.heard(attempt, parts_.clock.steady()); });
    return now;
  }
  // An end must be on the disk before it is acknowledged: the supervisor's journal, which could
  // tell it again, is then removed. The rest can be told again by that journal after a power
  // failure.
  const bool ends = std::any_of(reports.begin(), reports.end(),
                                [](const Report& r) { return r.kind == ReportKind::ended; });
  Orders answer;
  std::optional<Applied> applied;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), attempt.run));
    TRY(check_live(head, attempt));
    TRY_SET(store::AttemptRow row,
            store::attempt_row(transaction.db(), head.number, attempt.number));
    Taking taking{transaction, head, row, parts_.clock.wall()};
    TRY(take_new(taking, reports));
    applied = std::move(taking.applied);
    answer = {.seq_acknowledged = row.report_seq, .cancel = head.life.cancel_asked};
    return {};
  };
  TRY(parts_.store.write(ends ? Durable::yes : Durable::no, change));
  ledger_.with([&](Ledger& ledger) { ledger.heard(attempt, parts_.clock.steady()); });
  if (applied) settle(*applied);
  return answer;
}

Result<Assignment> AllRuns::assignment(const AttemptId& attempt, std::string_view token, int node) {
  Claim claim{.run = {}, .attempt = attempt, .secret = std::string(token), .gpus = {}};
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, attempt.run));
    TRY(check_live(head, attempt));
    TRY_SET(claim.run, store::load_run(db, attempt.run, store::Detail::brief));
    return {};
  };
  TRY(parts_.store.read(look));
  if (node < 0 || node >= claim.run.spec.nodes) {
    return fail(ErrorKind::invalid, "the run has no node " + std::to_string(node));
  }
  Assignment told = assignment(claim, {});
  told.node = node;
  // Nothing of this machine is there.
  told.server_socket.clear();
  told.blobs.clear();
  return told;
}

Result<Orders> AllRuns::orders(const AttemptId& attempt) {
  Orders answer;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, attempt.run));
    TRY(check_live(head, attempt));
    TRY_SET(const store::AttemptRow row, store::attempt_row(db, head.number, attempt.number));
    answer = {.seq_acknowledged = row.report_seq, .cancel = head.life.cancel_asked};
    return {};
  };
  TRY(parts_.store.read(look));
  return answer;
}

}  // namespace trainyard::control
