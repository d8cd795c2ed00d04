#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "db/db.h"
#include "store/metrics.h"

namespace trainyard::sim {
namespace {

constexpr int64_t kGb = int64_t{1} << 30;
constexpr int kStepsMax = 20'000;  // A whole life takes a few hundred; more is a run without end.
constexpr int kPointsMax = 10'000;
constexpr seconds kPauseMax{1};  // Of placing, when the engine has failed.
constexpr SteadyTime kNever = SteadyTime::max();

engine::Capacity machine(Random& random) {
  engine::Capacity capacity{
      .cpus = static_cast<int>(random.between(1, 6)), .memory_bytes = 8 * kGb, .gpus = {}};
  for (const int device : {0, 3, 4}) {
    if (random.percent(50)) capacity.gpus.push_back(device);
  }
  return capacity;
}

}  // namespace

World::World(uint64_t seed)
    : trace_(std::getenv("SIM_TRACE") != nullptr),
      random_(seed),
      engine_(machine(random_)),
      rules_(engine_.capacity()),
      old_nodes_(random_.percent(50)) {
  engine_.set_hooks({
      .placed =
          [this](const Assignment& assignment) {
            say("placed " + assignment.id().str());
            rules_.expect(!nodes_.contains(assignment.id()),
                          "attempt " + assignment.id().str() + " placed twice");
            rules_.check_placed(assignment);
            const bool old = old_nodes_ && random_.percent(50);
            nodes_.emplace(assignment.id(),
                           Node(assignment, old ? Node::Version::before : Node::Version::current,
                                random_, clock_.steady()));
            rules_.check_machine(nodes_);
          },
      .killed = [this](const AttemptId& attempt) { nodes_.at(attempt).die(); },
      .revived =
          [this](const AttemptId& attempt) {
            if (random_.percent(30)) return false;
            nodes_.at(attempt).revive(clock_.steady());
            return true;
          },
  });
  quiet_ = clock_.steady() + random_.pause(seconds(30), seconds(1800));
  next_fault_ = clock_.steady() + random_.pause(milliseconds(10), seconds(20));
  plan_runs();
  start_server();
}

World::~World() { control_.reset(); }

std::string World::live() {
  while (!all_over() && rules_.broken().empty()) {
    if (++tally_.steps > kStepsMax) return "not every run comes to its end";
    step();
  }
  if (rules_.broken().empty()) settle_down();
  return rules_.broken();
}

void World::step() {
  const SteadyTime now = std::max(next_moment(), clock_.steady());
  clock_.advance(now - clock_.steady());
  if (!control_ && now >= server_back_) start_server();
  if (now >= next_fault_ && now < quiet_) fault();

  for (size_t i = 0; i < planned_.size();) {
    if (planned_[i].due > now) {
      ++i;
      continue;
    }
    const Planned due = planned_[i];
    planned_.erase(planned_.begin() + static_cast<ptrdiff_t>(i));
    submit(due);
  }
  for (auto& [id, node] : nodes_) {
    if (const auto next = node.next_step(); next && *next <= now) node.step(random_, now);
    if (node.alive()) send(node);
  }
  for (auto program = programs_.begin(); program != programs_.end();) {
    step((program++)->second);  // It may end and go.
  }
  for (size_t i = 0; i < network_.size();) {
    if (network_[i].due > now) {
      ++i;
      continue;
    }
    const Message due = network_[i];
    network_.erase(network_.begin() + static_cast<ptrdiff_t>(i));
    deliver(due);
  }
  // Usually the loop is woken at once; now and then it is slow.
  if (control_ && (now >= next_tick_ || random_.percent(70))) tick();
  check_changed();
  rules_.check_machine(nodes_);
}

SteadyTime World::next_moment() const {
  SteadyTime next = control_ ? next_tick_ : server_back_;
  const auto sooner = [&](SteadyTime when) { next = std::min(next, when); };
  for (const Planned& planned : planned_) sooner(planned.due);
  for (const Message& message : network_) sooner(message.due);
  for (const auto& [id, node] : nodes_) {
    if (!node.alive()) continue;
    if (const auto step = node.next_step()) sooner(*step);
    sooner(node.next_send());
    for (const Scribe& scribe : node.scribes()) {
      if (scribe.pending()) sooner(scribe.next_send());
    }
  }
  for (const auto& [id, program] : programs_) {
    sooner(program.next_step());
    if (program.scribe().pending()) sooner(program.scribe().next_send());
  }
  if (next_fault_ < quiet_) sooner(next_fault_);
  return next;
}

// ---- the server ----

void World::start_server() {
  say("server starts");
  auto opened = store::Store::open(dir_.path() / "trainyard.db", clock_, {.sync = false});
  rules_.expect(opened.has_value(), "the database does not open");
  if (!opened) return;
  store_ = *std::move(opened);
  control_ = control::Control::create(
      {.clock = clock_,
       .store = *store_,
       .engine = engine_,
       .log = log_,
       .addresses = {},
       .snapshot_check = [](std::string_view) -> Result<control::SnapshotSize> {
         return control::SnapshotSize{};
       },
       .changed = [this](const RunId& id) { changed_.insert(id); }});
  const Status recovered = control_->recover();
  rules_.expect(recovered.has_value(), "the server does not recover");
  server_back_ = kNever;
  next_tick_ = clock_.steady();
  check_open();
  rules_.check_load(control_->load());
  for (const auto& [id, node] : nodes_) {
    // What was acknowledged before is there after.
    if (const auto orders = control_->orders(id))
      rules_.acknowledged(node, orders->seq_acknowledged);
  }
}

void World::stop_server(microseconds downtime) {
  if (!control_) return;
  say("server killed");
  ++tally_.restarts;
  control_.reset();
  if (can_roll_back() && random_.percent(50)) {
    roll_back();
  } else {
    store_.reset();
  }
  unsynced_.reset();
  server_back_ = clock_.steady() + downtime;
}

void World::tick() {
  check_changed();
  rules_.begin_round();
  const SteadyTime now = clock_.steady();
  next_tick_ = control_->tick();
  rules_.expect(next_tick_ > now, "the loop would spin");
  check_changed();
  if (!rules_.moved()) return;
  rules_.check_load(control_->load());
  rules_.check_round(next_tick_ - now <= kPauseMax ? Rules::Pause::perhaps : Rules::Pause::no);
}

void World::submit(Planned planned) {
  if (!control_) {
    planned.due = clock_.steady() + seconds(1);
    return planned_.push_back(planned);
  }
  check_changed();
  choose_parent(planned.spec);
  const RunSpec& spec = planned.spec;
  const bool orphan =
      spec.interactive && !spec.parent.empty() && rules_.is_over(RunId{spec.parent});
  const auto submitted = control_->submit({planned.id, spec, "ada"});
  if (orphan) {
    return rules_.expect(!submitted && submitted.error().kind == ErrorKind::conflict,
                         "a child of a parent that is over was taken");
  }
  rules_.expect(submitted.has_value(), "a good submission was refused");
  say("submitted " + planned.id.value);
  ++tally_.runs;
  told_.submitted(planned.id, spec);
  if (spec.interactive) {
    programs_.emplace(planned.id, Program(planned.id, random_, clock_.steady()));
  }
  submitted_.push_back(planned);
}

void World::check_changed() {
  if (!control_) return changed_.clear();
  while (!changed_.empty()) {
    for (const RunId& id : std::exchange(changed_, {})) {
      auto run = control_->run(id);
      rules_.expect(run.has_value(), "run " + id.value + " cannot be read");
      if (!run) return;
      const bool was_over = rules_.is_over(id);
      rules_.check_run(*run, nodes_);
      if (was_over || !rules_.is_over(id)) continue;
      say("over " + id.value + " " + std::string(to_string(run->life.status)));
      ++tally_.ends[run->life.status];
      tally_.retries += run->life.retries;
      told_.over(id);
      check_told(*run);
    }
  }
  rules_.check_children();
}

void World::check_open() {
  for (const auto& [id, about] : told_.runs()) {
    if (!rules_.is_over(RunId{id})) changed_.insert(RunId{id});
  }
  check_changed();
}

void World::check_told(const Run& run) {
  Rules::Series series;
  const Status read = store_->read([&](db::Db& db) -> Status {
    for (const Metric& metric : run.metrics) {
      TRY_SET(store::SeriesPage page,
              store::load_series(db, run.number, metric.name, 0, kPointsMax));
      series.emplace(metric.name, std::move(page.points));
    }
    return {};
  });
  rules_.expect(read.has_value(), "what run " + run.id.value + " told cannot be read");
  rules_.check_told(run, series, told_, nodes_);
}

// None changed without its readers being woken, and what is over has not changed at all.
void World::check_all() {
  check_changed();
  for (const auto& [id, about] : told_.runs()) {
    const auto run = control_->run(RunId{id});
    rules_.expect(run.has_value(), "run " + id + " cannot be read");
    if (!run) return;
    const int64_t version = rules_.version(run->id);
    rules_.expect(version == 0 || version == run->version,
                  "run " + id + " changed, and its readers were not woken");
    rules_.check_run(*run, nodes_);
    check_told(*run);
  }
  rules_.check_children();
}

bool World::all_over() const {
  return planned_.empty() &&
         std::all_of(submitted_.begin(), submitted_.end(),
                     [&](const Planned& planned) { return rules_.is_over(planned.id); });
}

// Nothing leaks: no CPU, no place in the queue, no folder on a node.
void World::settle_down() {
  if (!control_) {
    clock_.advance(server_back_ - clock_.steady());
    start_server();
  }
  for (int round = 0; round < 200 && !engine_.unreleased().empty(); ++round) {
    for (auto& [id, node] : nodes_) {
      if (node.alive()) end_node(node, "exit 0");
    }
    clock_.advance(std::max(next_tick_ - clock_.steady(), microseconds(1)));
    tick();
  }
  check_all();
  tally_.children = static_cast<int>(told_.runs().size() - submitted_.size());
  const control::Control::Load load = control_->load();
  rules_.expect(load.cpus_used == 0 && load.memory_used_bytes == 0, "CPUs or memory leaked");
  rules_.expect(load.queued == 0 && load.live == 0, "the queue is miscounted");
  rules_.expect(engine_.unreleased().empty(), "a node was not cleared");
  rules_.expect(store_->check().has_value(), "the database is damaged");
}

void World::say(const std::string& what) const {
  if (!trace_) return;
  std::fprintf(stderr, "%10.3f %s\n",
               static_cast<double>(clock_.steady().time_since_epoch().count()) / 1e6, what.c_str());
}

}  // namespace trainyard::sim
