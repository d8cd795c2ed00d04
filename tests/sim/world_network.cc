#include <algorithm>

#include "world.h"

// What supervisors and programs say to the server, and what becomes of it on the way.
namespace trainyard::sim {
namespace {

constexpr size_t kOldMessagesMax = 64;

}  // namespace

void World::send(Node& node) {
  const SteadyTime now = clock_.steady();
  for (Scribe& scribe : node.scribes()) {
    if (scribe.pending() && scribe.next_send() <= now) send(scribe, node.mute(now));
  }
  if (node.next_send() > now) return;
  node.sent(now);
  if (node.mute(now)) return;
  std::vector<Report> reports;
  const auto add = [&](const Node::Entry& entry) {
    reports.push_back(entry.report);
    reports.back().age_us = (now - entry.happened).count();
  };
  for (const Node::Entry& entry : node.samples()) add(entry);
  for (const Node::Entry& entry : node.journal()) {
    if (entry.report.seq <= node.acknowledged()) continue;
    if (entry.report.kind == ReportKind::ended && !node.may_end()) break;
    add(entry);
  }
  const auto one = [&](std::vector<Report> some) {
    post({.attempt = node.id(), .reports = std::move(some), .records = {}, .epoch = node.epoch()});
  };
  // One of the version before names no report that it follows: what it sends keeps its order.
  const bool whole = node.version() == Node::Version::before || random_.percent(70);
  if (reports.size() < 2 || whole) return one(std::move(reports));
  // Each by itself: they overtake each other on their way.
  for (Report& report : reports) one({std::move(report)});
}

void World::send(Scribe& scribe, bool mute) {
  Scribe::Piece piece = scribe.cut(random_, clock_.steady(), calm());
  if (mute) return;
  post({.attempt = scribe.attempt(),
        .reports = {},
        .records = Records{scribe.rank(), std::move(piece)}});
}

void World::post(Message message) {
  if (!calm() && random_.percent(5)) return;  // Lost.
  const int copies = !calm() && random_.percent(10) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    const bool late = !calm() && random_.percent(5);
    message.due = clock_.steady() + (late ? random_.pause(seconds(1), seconds(90))
                                          : random_.pause(milliseconds(0), milliseconds(40)));
    network_.push_back(message);
  }
}

void World::deliver(const Message& message) {
  if (!control_) return;
  old_messages_.push_back(message);
  if (old_messages_.size() > kOldMessagesMax) old_messages_.pop_front();
  if (message.records) {
    deliver_records(message.attempt, *message.records);
  } else {
    deliver_reports(message);
  }
}

void World::deliver_reports(const Message& message) {
  ++tally_.reports;
  const bool ends = std::ranges::any_of(
      message.reports, [](const Report& report) { return report.kind == ReportKind::ended; });
  if (!ends) begin_unsynced();
  AttemptNode from(message.attempt);
  from.epoch = message.epoch;
  const Result<Orders> orders = control_->report(from, message.reports);
  if (!ends) end_unsynced();
  const Node& node = nodes_.at(message.attempt);
  if (orders) {
    rules_.acknowledged(node, orders->seq_acknowledged);
    rules_.sampled(node, message.reports);
    rules_.expect(orders->seq_acknowledged <= node.last_seq(), "acknowledged what was never sent");
    if (message.reports.empty()) {
      check_changed();
      rules_.expect(rules_.may_tell(message.attempt), "a stale attempt was not fenced off");
    }
  }
  if (calm() || !random_.percent(5)) answer(message, orders);
}

void World::deliver_records(const AttemptId& attempt, const Records& records) {
  ++tally_.records;
  check_changed();  // Who is over takes no more of them.
  const std::string who = "records of " + attempt.str() + ": ";
  if (attempt.number > 0) begin_unsynced();
  const Result<int64_t> taken =
      control_->take_records(attempt, records.rank, records.piece.from, records.piece.bytes);
  if (attempt.number > 0) end_unsynced();
  rules_.expect(taken.has_value() == rules_.may_tell(attempt),
                who + (taken ? "taken of one who is over" : taken.error().message));
  if (!taken) {
    // A supervisor learns by its reports that it is not wanted any more, a program by this.
    if (attempt.number == 0) programs_.erase(attempt.run);
    return;
  }
  const int64_t meant = told_.take(attempt, records.rank, records.piece.from, records.piece.bytes);
  rules_.expect(*taken == meant,
                who + std::to_string(*taken) + " bytes are taken, not " + std::to_string(meant));
  if (!calm() && random_.percent(5)) return;  // The answer was lost.
  if (attempt.number > 0) {
    Node& node = nodes_.at(attempt);
    // The revived one reads the file that its predecessor wrote.
    node.scribes()[static_cast<size_t>(records.rank)].acknowledge(*taken);
    return;
  }
  const auto program = programs_.find(attempt.run);
  if (program != programs_.end()) program->second.scribe().acknowledge(*taken);
}

void World::answer(const Message& message, const Result<Orders>& orders) {
  const AttemptId& attempt = message.attempt;
  Node& node = nodes_.at(attempt);
  if (!node.alive()) return;
  if (!orders) {
    rules_.expect(orders.error().kind == ErrorKind::conflict,
                  "a report was refused: " + orders.error().message);
    check_changed();
    rules_.expect(!rules_.may_tell(attempt),
                  "attempt " + attempt.str() + " was fenced off while it was live");
    ++tally_.fenced;
    return end_node(node, "fenced off");
  }
  int64_t sample = 0;
  for (const Report& report : message.reports) sample = std::max(sample, report.sample);
  node.take(*orders, sample);
  if (node.ended() && node.all_acknowledged()) end_node(node, "exit 0");
}

void World::end_node(Node& node, const std::string& why) {
  node.die();
  const bool told = calm() || random_.percent(80);
  engine_.end(node.id(), why, told ? engine::FakeEngine::Tell::yes : engine::FakeEngine::Tell::no);
}

// ---- programs elsewhere ----

void World::step(Program& program) {
  const SteadyTime now = clock_.steady();
  Scribe& scribe = program.scribe();
  if (program.next_step() <= now) {
    program.step(random_, now);
    if (program.wants_end() && control_) return end(program);
    if (control_ && random_.percent(20)) tell_once(program.run());
  }
  if (scribe.pending() && scribe.next_send() <= now) send(scribe, false);
}

// Without a stream: nothing protects it from counting twice, so it is sent once.
void World::tell_once(const RunId& run) {
  check_changed();
  if (rules_.is_over(run)) return;
  Scribe once({run, 0}, static_cast<int>(random_.between(10, 99)));
  once.write(random_, clock_.steady());
  const std::string lines = once.cut(random_, clock_.steady(), true).bytes;
  const Result<int64_t> taken = control_->take_records(run, lines);
  rules_.expect(taken && *taken == told_.take(run, lines),
                "records of " + run.value + ": other lines were taken than are records");
}

void World::end(Program& program) {
  check_changed();
  const RunId run = program.run();
  const bool over = rules_.is_over(run);
  const bool failed = random_.percent(20);
  const auto ended = control_->end(run, failed ? RunStatus::failed : RunStatus::completed,
                                   failed ? "it went wrong" : "");
  rules_.expect(ended.has_value() != over, "the end of run " + run.value + " went wrong");
  say("ended " + run.value);
  // When the answer is lost it says so once more.
  if (over || calm() || !random_.percent(20)) programs_.erase(run);
}

}  // namespace trainyard::sim
