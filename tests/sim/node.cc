#include "node.h"

namespace trainyard::sim {
namespace {

using std::chrono::minutes;

constexpr int kLongPercent = 15;  // Longer than any lease.
constexpr int kPrepareFailsPercent = 5;
constexpr int kScriptFailsPercent = 25;
constexpr int kStoppedPercent = 8;  // Its time was up, or the disk full.

}  // namespace

Node::Node(const Assignment& assignment, Version version, Random& random, SteadyTime now)
    : id_(assignment.id()),
      resources_(assignment.spec.resources),
      gpus_(assignment.gpus),
      version_(version) {
  for (int rank = 0; rank < assignment.spec.processes_per_node; ++rank) {
    scribes_.emplace_back(id_, rank);
  }
  samples_left_ = static_cast<int>(random.between(0, 4));
  if (random.percent(kLongPercent)) pace_ = minutes(5);
  next_step_ = now + random.pause(milliseconds(1), milliseconds(500));
  next_send_ = next_step_;
}

std::optional<SteadyTime> Node::next_step() const {
  if (!alive_ || ended_) return std::nullopt;
  return next_step_;
}

void Node::step(Random& random, SteadyTime now) {
  next_step_ = now + random.pause(milliseconds(1), pace_);
  switch (stage_) {
    case Stage::placed:
      stage_ = Stage::preparing;
      write({.kind = ReportKind::preparing}, now);
      return;
    case Stage::preparing:
      if (cancel_) return write_end(EndCause::canceled, 1, now);
      if (random.percent(kPrepareFailsPercent)) {
        return write_end(EndCause::prepare_failed, 127, now);
      }
      stage_ = Stage::starting;
      ranks_ = ranks_ever_ = true;
      write({.kind = ReportKind::starting}, now);
      return;
    case Stage::starting:
      stage_ = Stage::running;
      write({.kind = ReportKind::running, .node = "node"}, now);
      return;
    case Stage::running:
      return run_on(random, now);
    case Stage::finalizing:
      return finish(random, now);
    case Stage::bereft:
      if (all_told()) write_end(EndCause::lost, 1, now);
      return;
    case Stage::ended:
      return;
  }
}

void Node::run_on(Random& random, SteadyTime now) {
  cpu_seconds_ += static_cast<double>(random.between(1, 1000)) / 8;
  for (Scribe& scribe : scribes_) {
    if (random.percent(60)) scribe.write(random, now);
  }
  if (samples_left_-- > 0 && !cancel_) {
    Report sample{.kind = ReportKind::sample};
    sample.cpu_seconds = cpu_seconds_;
    for (const int device : gpus_) {
      sample.gpus.push_back({device, static_cast<double>(seq_ + sample_count_), 0, -1});
    }
    return write(sample, now);
  }
  stage_ = Stage::finalizing;
  ranks_ = false;
  write({.kind = ReportKind::finalizing}, now);
}

// Its end is told when everything else was.
void Node::finish(Random& random, SteadyTime now) {
  if (!all_told()) return;
  if (cancel_ && random.percent(60)) return write_end(EndCause::canceled, 1, now);
  if (random.percent(kStoppedPercent)) {
    const bool time = random.percent(50);
    return write_end(time ? EndCause::time_limit : EndCause::no_space, 1, now);
  }
  write_end(EndCause::exited, random.percent(kScriptFailsPercent) ? 3 : 0, now);
}

bool Node::all_told() const {
  return std::none_of(scribes_.begin(), scribes_.end(),
                      [](const Scribe& scribe) { return scribe.pending(); });
}

void Node::take(const Orders& orders, int64_t sample) {
  cancel_ = cancel_ || orders.cancel;
  if (version_ == Version::before) {
    acknowledged_ = std::max(acknowledged_, orders.seq_acknowledged);
    return;
  }
  acknowledged_ = orders.seq_acknowledged;
  std::erase_if(samples_, [&](const Entry& entry) { return entry.report.sample <= sample; });
  if (epoch_ == orders.epoch) return;
  if (!epoch_.empty()) {
    for (Scribe& scribe : scribes_) scribe.doubt();
  }
  epoch_ = orders.epoch;
}

void Node::die() {
  alive_ = false;
  ranks_ = false;
}

void Node::revive(SteadyTime now) {
  alive_ = true;
  mute_until_ = now;
  next_send_ = now;
  samples_.clear();
  std::erase_if(journal_,
                [](const Entry& entry) { return entry.report.kind == ReportKind::sample; });
  for (Scribe& scribe : scribes_) scribe.doubt();
  if (ended_) return;
  stage_ = Stage::bereft;
  next_step_ = now;
}

void Node::write(Report report, SteadyTime now) {
  if (report.kind == ReportKind::sample && version_ == Version::current) {
    report.sample = ++sample_count_;
    samples_.push_back({std::move(report), now});
    next_send_ = now;
    return;
  }
  if (version_ == Version::current) report.after = seq_;
  report.seq = ++seq_;
  journal_.push_back({std::move(report), now});
  next_send_ = now;
}

void Node::write_end(EndCause cause, int exit_code, SteadyTime now) {
  stage_ = Stage::ended;
  ranks_ = false;
  Report report{.kind = ReportKind::ended};
  report.end.cause = cause;
  report.end.exit_code = exit_code;
  report.end.ranks_started = ranks_ever_;
  report.end.cpu_seconds = cpu_seconds_;
  report.end.error = exit_code == 0 ? "" : std::string(to_string(cause));
  ended_ = report.end;
  write(std::move(report), now);
}

}  // namespace trainyard::sim
