#include "cluster.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"
#include "db/db.h"
#include "store/history.h"

namespace trainyard::sim {
namespace {

constexpr const char* kTarget = "big";
constexpr const char* kQueue = "default/big";
constexpr seconds kHeartbeat{40};   // Before the control plane would begin to wonder.
constexpr seconds kOrphanTells{3};  // After its node was taken away.

Report report(int64_t seq, ReportKind kind) { return {.seq = seq, .kind = kind}; }

Report ended(int64_t seq) {
  Report last = report(seq, ReportKind::ended);
  last.end.ranks_started = true;
  return last;
}

}  // namespace

Cluster::~Cluster() { stop(); }

void Cluster::start(Sync sync) {
  auto opened =
      store::Store::open(dir_.path() / "trainyard.db", clock_, {.sync = sync == Sync::yes});
  ENSURE(opened);
  store_ = *std::move(opened);
  control_ = control::Control::create(
      {.clock = clock_,
       .store = *store_,
       .engine = here_,
       .log = log_,
       .addresses = {"/socket", "http://here", "/blobs"},
       .snapshot_check = [](std::string_view) { return Result<control::SnapshotSize>({3, 41}); },
       .changed = {}});
  control_->add_target(kQueue, std::shared_ptr<engine::Engine>(std::shared_ptr<void>(), &engine_));
  ENSURE(control_->recover());
}

void Cluster::stop() {
  control_.reset();
  store_.reset();
}

RunId Cluster::id_of(int number) { return RunId{fmt::format("run-{:06}", number)}; }

Cluster::Known& Cluster::known(const RunId& id) {
  const auto number = parse_int(id.value.substr(4), "run");
  ENSURE(number);
  return runs_.at(static_cast<size_t>(*number));
}

RunId Cluster::queued_last() const { return id_of(queue_.rbegin()->number); }

void Cluster::break_rule(const std::string& rule) {
  if (broken_.empty()) broken_ = rule;
}

void Cluster::submit(int count, std::optional<Priority> priority) {
  RunSpec spec = store::plain_spec();
  spec.target = kTarget;
  for (int i = 0; i < count; ++i) {
    const int number = static_cast<int>(runs_.size());
    spec.priority = priority.value_or(static_cast<Priority>(random_.between(0, 2)));
    const auto made = control_->submit({id_of(number), spec, "ada"});
    if (!made) return break_rule("submit: " + made.error().message);
    runs_.push_back({.place = {-static_cast<int>(spec.priority), number}});
    queue_.insert(runs_.back().place);
  }
}

void Cluster::settle() {
  SteadyTime next = clock_.steady();
  while (next <= clock_.steady() && broken_.empty()) {
    const SteadyTime begun = machine_.steady();
    next = control_->tick();
    const double took = static_cast<double>((machine_.steady() - begun).count()) / 1e3;
    const size_t before = queue_.size();
    check_placed();
    (queue_.size() < before ? rounds.placing : rounds.idle).push_back(took);
  }
}

// Placed is always who is first in line.
void Cluster::check_placed() {
  for (const AttemptId& attempt : engine_.take_placed()) {
    Known& run = known(attempt.run);
    if (queue_.empty() || *queue_.begin() != run.place) {
      return break_rule(attempt.str() + " was placed before its turn");
    }
    queue_.erase(queue_.begin());
    if (attempt.number != ++run.attempts) {
      return break_rule(attempt.str() + " is not the next attempt of its run");
    }
  }
}

void Cluster::step() {
  clock_.advance(seconds(1));
  while (!events_.empty() && events_.begin()->first <= clock_.steady()) {
    const Event event = events_.begin()->second;
    events_.erase(events_.begin());
    happen(event);
  }
  // Who begins makes room in the window for the next.
  for (std::vector<AttemptId> begun; broken_.empty();) {
    settle();
    begun = engine_.start_waiting();
    for (const AttemptId& attempt : begun) begin(attempt);
    if (begun.empty()) break;
  }
  const auto waiting = static_cast<int>(engine_.waiting());
  if (waiting > plan_.ahead) {
    break_rule(fmt::format("{} wait in the cluster, the window is {}", waiting, plan_.ahead));
  }
  if (!queue_.empty() && (waiting < plan_.ahead || engine_.busy() < plan_.nodes)) {
    break_rule(fmt::format("{} wait here while {} wait in the cluster and {} of its nodes are busy",
                           queue_.size(), waiting, engine_.busy()));
  }
}

void Cluster::begin(const AttemptId& attempt) {
  Report running = report(3, ReportKind::running);
  running.node = "n1";
  const std::vector<Report> first{report(1, ReportKind::preparing), report(2, ReportKind::starting),
                                  running};
  if (const auto taken = control_->report(attempt, first); !taken) {
    return break_rule(attempt.str() + " is not heard: " + taken.error().message);
  }
  running_.insert(attempt);
  const seconds takes(random_.between(plan_.shortest.count(), plan_.longest.count()));
  for (seconds at = kHeartbeat; at < takes; at += kHeartbeat) {
    events_.insert({clock_.steady() + at, {attempt, Happening::heartbeat}});
  }
  events_.insert({clock_.steady() + takes, {attempt, Happening::end}});
}

void Cluster::happen(const Event& event) {
  const AttemptId& attempt = event.attempt;
  const std::vector<Report> last{report(4, ReportKind::finalizing), ended(5)};
  if (event.what == Happening::orphan) {
    const auto taken = control_->report(attempt, last);
    if (taken || taken.error().kind != ErrorKind::conflict) {
      break_rule(attempt.str() + " spoke although its node was taken away, and was not refused");
    }
    return;
  }
  if (!running_.contains(attempt)) return;
  const bool ends = event.what == Happening::end;
  const auto taken = control_->report(attempt, ends ? std::span(last) : std::span<const Report>());
  if (!taken) return break_rule(attempt.str() + " is not heard: " + taken.error().message);
  if (!ends) return;
  running_.erase(attempt);
  engine_.end(attempt);
  ++over_;
}

void Cluster::evict(int count) {
  for (int i = 0; i < count && !running_.empty(); ++i) {
    // Near a place by chance: the set has no faster way.
    auto found = running_.lower_bound(
        {id_of(static_cast<int>(random_.between(0, static_cast<int64_t>(runs_.size()) - 1))), 1});
    if (found == running_.end()) found = running_.begin();
    const AttemptId attempt = *found;
    running_.erase(found);
    engine_.evict(attempt);
    queue_.insert(known(attempt.run).place);
    events_.insert({clock_.steady() + kOrphanTells, {attempt, Happening::orphan}});
    ++evictions_;
  }
}

void Cluster::check_all() {
  const auto count = [&](const std::string& sql, int64_t wanted, const std::string& what) {
    int64_t found = -1;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(db::Statement row, db.query(sql));
      TRY_SET(const bool any, row.next());
      if (any) found = row.integer(0);
      return {};
    };
    ENSURE(store_->read(look));
    if (found != wanted) break_rule(fmt::format("{}: {}, not {}", what, found, wanted));
  };
  const auto all = static_cast<int64_t>(runs_.size());
  count("SELECT COUNT(*) FROM runs", all, "runs");
  count("SELECT COUNT(*) FROM runs WHERE status = 'Completed'", all, "completed runs");
  count("SELECT COUNT(*) FROM attempts", all + evictions_, "attempts");
  count("SELECT COUNT(*) FROM attempts WHERE ended IS NULL", 0, "attempts without an end");
  count("SELECT COUNT(*) FROM attempts WHERE released = 0", 0, "attempts not released");
  count("SELECT COUNT(*) FROM events WHERE kind = 'ended'", all, "ends");
  count("SELECT COUNT(DISTINCT run) FROM events WHERE kind = 'ended'", all, "runs with an end");
  count("SELECT COUNT(*) FROM events WHERE kind = 'lost'", evictions_, "losses");
  if (engine_.held() > 0) break_rule(fmt::format("the cluster holds {} still", engine_.held()));
  if (const auto load = control_->load(kQueue); load.live != 0 || load.queued != 0) {
    break_rule(fmt::format("the ledger has {} live, {} queued", load.live, load.queued));
  }
}

}  // namespace trainyard::sim
