#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "store/history.h"

namespace trainyard::sim {
namespace {

constexpr int64_t kGb = int64_t{1} << 30;
constexpr int kStepsMax = 20'000;  // A whole life takes a few hundred; more is a run without end.
constexpr SteadyTime kNever = SteadyTime::max();

engine::Capacity machine(Random& random) {
  return {.cpus = static_cast<int>(random.between(1, 4)), .memory_bytes = 8 * kGb};
}

}  // namespace

World::World(uint64_t seed)
    : trace_(std::getenv("SIM_TRACE") != nullptr), random_(seed), engine_(machine(random_)) {
  engine_.set_hooks({
      .placed =
          [this](const Assignment& assignment) {
            say("placed " + assignment.id().str());
            rules_.expect(!nodes_.contains(assignment.id()),
                          "attempt " + assignment.id().str() + " placed twice");
            nodes_.emplace(assignment.id(), Node(assignment, random_, clock_.steady()));
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
    if (node.alive() && node.next_send() <= now) send(node);
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
  rules_.check_machine(nodes_, engine_.capacity().cpus, engine_.capacity().memory_bytes);
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
  check_all();
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
  store_.reset();
  server_back_ = clock_.steady() + downtime;
}

void World::tick() {
  const SteadyTime now = clock_.steady();
  next_tick_ = control_->tick();
  rules_.expect(next_tick_ > now, "the loop would spin");
}

void World::submit(const Planned& planned) {
  Planned again = planned;
  again.due = clock_.steady() + seconds(1);
  if (!control_) return planned_.push_back(again);
  const auto submitted = control_->submit({planned.id, planned.spec, "ada"});
  rules_.expect(submitted.has_value(), "a good submission was refused");
  say("submitted " + planned.id.value);
  ++tally_.runs;
  submitted_.push_back(planned);
}

void World::check_changed() {
  if (!control_) return changed_.clear();
  // By number: of several that were claimed in one round, the earliest was first.
  std::map<int64_t, Run> read;
  for (const RunId& id : std::exchange(changed_, {})) {
    auto run = control_->run(id);
    rules_.expect(run.has_value(), "run " + id.value + " cannot be read");
    if (run) read.emplace(run->number, *std::move(run));
  }
  for (const auto& [number, run] : read) {
    const bool was_over = rules_.is_over(run.id);
    rules_.check_run(run, nodes_);
    if (was_over || !rules_.is_over(run.id)) continue;
    say("over " + run.id.value + " " + std::string(to_string(run.life.status)));
    ++tally_.ends[run.life.status];
  }
}

void World::check_all() {
  for (const Planned& planned : submitted_) changed_.insert(planned.id);
  check_changed();
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
