#include <algorithm>

#include "store/history.h"
#include "world.h"

// What chance brings: the runs, the network, the faults.
namespace trainyard::sim {
namespace {

constexpr int64_t kGb = int64_t{1} << 30;
constexpr size_t kOldMessagesMax = 64;

}  // namespace

void World::plan_runs() {
  const int64_t count = random_.between(3, 16);
  for (int64_t i = 1; i <= count; ++i) {
    RunSpec spec = store::plain_spec();
    spec.resources.cpus = static_cast<int>(random_.between(1, engine_.capacity().cpus));
    spec.resources.memory_bytes = random_.percent(30) ? random_.between(1, 8) * kGb : 0;
    planned_.push_back({RunId{"run-" + std::to_string(i)}, spec,
                        clock_.steady() + random_.pause(milliseconds(0), seconds(60))});
  }
}

// ---- the network ----

void World::send(Node& node) {
  node.sent(clock_.steady());
  if (node.mute(clock_.steady())) return;
  std::vector<Report> reports;
  for (const Node::Entry& entry : node.journal()) {
    if (entry.report.seq <= node.acknowledged()) continue;
    reports.push_back(entry.report);
    reports.back().age_us = (clock_.steady() - entry.happened).count();
  }
  if (reports.size() < 2 || random_.percent(70)) return post(node.id(), std::move(reports));
  // Each by itself: they overtake each other on their way.
  for (Report& report : reports) post(node.id(), {std::move(report)});
}

void World::post(const AttemptId& attempt, std::vector<Report> reports) {
  const bool calm = clock_.steady() >= quiet_;
  if (!calm && random_.percent(5)) return;  // Lost.
  const int copies = !calm && random_.percent(10) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const bool late = !calm && random_.percent(5);
    const microseconds delay = late ? random_.pause(seconds(1), seconds(90))
                                    : random_.pause(milliseconds(0), milliseconds(40));
    network_.push_back({attempt, reports, clock_.steady() + delay});
  }
}

void World::deliver(const Message& message) {
  if (!control_) return;
  ++tally_.reports;
  old_messages_.push_back(message);
  if (old_messages_.size() > kOldMessagesMax) old_messages_.pop_front();
  const Result<Orders> orders = control_->report(message.attempt, message.reports);
  const Node& node = nodes_.at(message.attempt);
  if (orders) {
    rules_.acknowledged(node, orders->seq_acknowledged);
    rules_.expect(orders->seq_acknowledged <= static_cast<int64_t>(node.journal().size()),
                  "acknowledged what was never sent");
    if (message.reports.empty()) {
      const auto run = control_->run(message.attempt.run);
      rules_.expect(run && run->life.attempt == message.attempt.number,
                    "a stale attempt was not fenced off");
    }
  }
  const bool calm = clock_.steady() >= quiet_;
  if (calm || !random_.percent(5)) answer(message.attempt, orders);
}

void World::answer(const AttemptId& attempt, const Result<Orders>& orders) {
  Node& node = nodes_.at(attempt);
  if (!node.alive()) return;
  if (!orders) {
    rules_.expect(orders.error().kind == ErrorKind::conflict,
                  "a report was refused: " + orders.error().message);
    const auto run = control_->run(attempt.run);
    const bool over = run && (run->life.attempt != attempt.number || run->attempts.back().ended);
    rules_.expect(over, "attempt " + attempt.str() + " was fenced off while it was live");
    ++tally_.fenced;
    return end_node(node, "fenced off");
  }
  node.take(*orders);
  if (node.ended() && node.all_acknowledged()) end_node(node, "exit 0");
}

void World::end_node(Node& node, const std::string& why) {
  node.die();
  const bool told = clock_.steady() >= quiet_ || random_.percent(80);
  engine_.end(node.id(), why, told ? engine::FakeEngine::Tell::yes : engine::FakeEngine::Tell::no);
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
  if (!control_ || submitted_.empty()) return;
  const auto chosen = random_.between(0, static_cast<int64_t>(submitted_.size()) - 1);
  const RunId& id = submitted_[static_cast<size_t>(chosen)].id;
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
  same.spec.command = {"false"};
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
