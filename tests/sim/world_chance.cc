#include <algorithm>

#include "store/history.h"
#include "world.h"

// What chance brings: the runs, the network, the faults.
namespace trainyard::sim {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int kInteractivePercent = 12;
constexpr int kChildPercent = 15;  // Of a run that was submitted before.
constexpr int kInteractiveChildPercent = 60;
constexpr int kLatePercent = 20;  // When others are over already.

RetryPolicy any_policy(Random& random) {
  RetryPolicy policy;
  if (random.percent(50)) return policy;
  policy.max = static_cast<int>(random.between(0, 3));
  for (const char* cause : {"failed", "lost", "no_space", "time_limit"}) {
    if (random.percent(30)) policy.causes.emplace_back(cause);
  }
  return policy;
}

}  // namespace

void World::plan_runs() {
  const int64_t count = random_.between(3, 12);
  for (int64_t i = 1; i <= count; ++i) {
    RunSpec spec = store::plain_spec();
    if (random_.percent(kInteractivePercent)) {
      spec.interactive = true;
      spec.command.clear();
    }
    // Small ones mostly: several run at once.
    spec.resources.cpus =
        random_.percent(60) ? 1 : static_cast<int>(random_.between(1, engine_.capacity().cpus));
    spec.resources.memory_bytes = random_.percent(20) ? random_.between(1, 8) * kGiB : 0;
    // More than there are is refused; where there are none, any wish is granted none.
    const auto gpus = static_cast<int64_t>(engine_.capacity().gpus.size());
    const int64_t most = gpus == 0 ? 2 : std::min(gpus, int64_t{2});
    spec.resources.gpus = random_.percent(50) ? 1 : static_cast<int>(random_.between(0, most));
    if (random_.percent(40)) {
      spec.priority = random_.percent(50) ? Priority::high : Priority::low;
    }
    spec.retry = any_policy(random_);
    spec.processes_per_node = random_.percent(30) ? 2 : 1;
    const microseconds due = random_.percent(kLatePercent)
                                 ? random_.pause(seconds(60), seconds(600))
                                 : random_.pause(milliseconds(0), seconds(60));
    planned_.push_back({RunId{"run-" + std::to_string(i)}, spec, clock_.steady() + due});
  }
}

void World::choose_parent(RunSpec& spec) {
  const int chance = spec.interactive ? kInteractiveChildPercent : kChildPercent;
  if (submitted_.empty() || !random_.percent(chance)) return;
  const auto chosen = random_.between(0, static_cast<int64_t>(submitted_.size()) - 1);
  spec.parent = submitted_[static_cast<size_t>(chosen)].id.value;
}

// ---- faults ----

void World::fault() {
  next_fault_ = clock_.steady() + random_.pause(milliseconds(10), seconds(40));
  switch (random_.between(1, 9)) {
    case 1:
      return kill_one();
    case 2:
      if (Node* node = any_node()) {
        say("silent " + node->id().str());
        node->fall_silent(random_.percent(30)
                              ? SteadyTime::max()
                              : clock_.steady() + random_.pause(seconds(1), seconds(900)));
      }
      return;
    case 3:
      return stop_server(random_.pause(milliseconds(0), seconds(150)));
    case 4:
      // The server dies between a claim and its placing.
      if (!control_) return;
      engine_.fail_next_place(engine::FakeEngine::Fault::dropped);
      tick();
      if (random_.percent(70)) stop_server(random_.pause(milliseconds(0), seconds(5)));
      return;
    case 5:
      return engine_.fail_next_place(engine::FakeEngine::Fault::refused);
    case 6:
      return cancel_one();
    case 7:
      return submit_again();
    case 8:
      // Long after its time.
      if (!old_messages_.empty()) {
        const auto chosen = random_.between(0, static_cast<int64_t>(old_messages_.size()) - 1);
        deliver(Message(old_messages_[static_cast<size_t>(chosen)]));
      }
      return;
    case 9:
      // Server and supervisor at once: the machine was switched off.
      kill_one();
      return stop_server(random_.pause(milliseconds(0), seconds(30)));
    default:
      return;
  }
}

void World::kill_one() {
  Node* node = any_node();
  if (node == nullptr) return;
  say("killed " + node->id().str());
  ++tally_.lost;
  end_node(*node, "killed by signal 9");
}

void World::cancel_one() {
  if (!control_ || told_.runs().empty()) return;
  // Children that scripts told of are among them.
  const auto chosen = random_.between(0, static_cast<int64_t>(told_.runs().size()) - 1);
  RunId id{std::next(told_.runs().begin(), chosen)->first};
  if (const Node* node = any_node(); node != nullptr && random_.percent(50)) id = node->id().run;
  check_changed();
  say("cancel " + id.value);
  const bool over = rules_.is_over(id);
  const auto canceled = control_->cancel(id, "ada");
  rules_.expect(canceled.has_value() != over, "cancel of run " + id.value + " went wrong");
}

void World::submit_again() {
  if (!control_ || submitted_.empty()) return;
  const auto chosen = random_.between(0, static_cast<int64_t>(submitted_.size()) - 1);
  Planned same = submitted_[static_cast<size_t>(chosen)];
  const auto again = control_->submit({same.id, same.spec, "ada"});
  rules_.expect(again && !again->created, "the same submission again is not the same run");
  same.spec.description = "another";
  const auto other = control_->submit({same.id, same.spec, "ada"});
  rules_.expect(!other && other.error().kind == ErrorKind::conflict,
                "another spec under the same id was taken");
}

Node* World::any_node() {
  std::vector<Node*> alive;
  for (auto& [id, node] : nodes_) {
    if (node.alive()) alive.push_back(&node);
  }
  if (alive.empty()) return nullptr;
  return alive[static_cast<size_t>(random_.between(0, static_cast<int64_t>(alive.size()) - 1))];
}

}  // namespace trainyard::sim
