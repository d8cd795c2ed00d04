#include "control/control.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>

#include "base/fake_clock.h"
#include "engine/fake.h"
#include "store/history.h"

using namespace trainyard;
using control::Control;
using engine::FakeEngine;
using engine::Placement;

namespace {

constexpr int64_t kGb = int64_t{1} << 30;

// A machine of two CPUs, and what happens on it as the test says.
struct Yard {
  TempDir dir;
  FakeClock clock;
  NullLog log;
  FakeEngine engine{{.cpus = 2, .memory_bytes = 16 * kGb}};
  std::unique_ptr<store::Store> store;
  std::unique_ptr<Control> control;
  std::multiset<std::string> changed;
  int snapshot_checks = 0;

  Yard() { start(); }

  void start() {
    auto opened = store::Store::open(dir.path() / "trainyard.db", clock);
    REQUIRE(opened);
    store = *std::move(opened);
    control = Control::create(
        {.clock = clock,
         .store = *store,
         .engine = engine,
         .log = log,
         .addresses = {"/socket", "http://here", "/blobs"},
         .snapshot_check = [this](std::string_view tree) -> Result<control::SnapshotSize> {
           ++snapshot_checks;
           if (tree == "missing") {
             return fail(ErrorKind::not_found, "snapshot missing");
           }
           return control::SnapshotSize{3, 41};
         },
         .changed = [this](const RunId& id) { changed.insert(id.value); }});
    REQUIRE(control->recover());
  }
  void restart() {
    control.reset();
    store.reset();
    start();
  }

  static RunSpec spec(int cpus = 1) {
    RunSpec spec = store::plain_spec();
    spec.resources.cpus = cpus;
    return spec;
  }
  Run submit(const std::string& id, RunSpec of = spec()) {
    auto submitted = control->submit({RunId{id}, of, "ada"});
    REQUIRE_MESSAGE(submitted, (submitted ? "" : submitted.error().message));
    return submitted->run;
  }
  Run run(const std::string& id) {
    auto found = control->run(RunId{id});
    REQUIRE(found);
    return *found;
  }
  RunStatus status(const std::string& id) { return run(id).life.status; }
  Result<Orders> report(const std::string& id, int attempt, std::vector<Report> reports) {
    return control->report({RunId{id}, attempt}, reports);
  }
};

Report phase(int64_t seq, ReportKind kind) { return {.seq = seq, .kind = kind}; }

Report ended(int64_t seq, EndCause cause = EndCause::exited, int exit_code = 0) {
  Report report{.seq = seq, .kind = ReportKind::ended};
  report.end.cause = cause;
  report.end.exit_code = exit_code;
  report.end.ranks_started = true;
  report.end.cpu_seconds = 2.5;
  report.end.error = exit_code == 0 ? "" : "rank 0 exited with code 3";
  return report;
}

std::vector<Report> whole_life(int exit_code = 0) {
  return {phase(1, ReportKind::preparing), phase(2, ReportKind::starting),
          phase(3, ReportKind::running), phase(4, ReportKind::finalizing),
          ended(5, EndCause::exited, exit_code)};
}

std::vector<std::string> kinds(const Run& run) {
  std::vector<std::string> kinds;
  for (const RunEventRecord& event : run.events) kinds.push_back(event.kind);
  return kinds;
}

ErrorKind kind_of(const auto& result) {
  REQUIRE(!result);
  return result.error().kind;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a run goes from submit to its end, and every step is an event") {
  Yard yard;
  const Run submitted = yard.submit("run-1");
  CHECK(submitted.life.status == RunStatus::queued);
  CHECK(submitted.reason == "is about to start; position 1");
  yard.clock.advance(seconds(1));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::provisioning);
  const auto assignment = yard.engine.assignment({RunId{"run-1"}, 1});
  REQUIRE(assignment);
  CHECK(assignment->spec == Yard::spec());
  CHECK(assignment->blobs == "/blobs");
  const auto who = yard.store->identify(assignment->token);
  REQUIRE(who);
  CHECK(who->attempt == AttemptId{RunId{"run-1"}, 1});
  yard.clock.advance(seconds(1));
  const auto orders = yard.report("run-1", 1, whole_life());
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 5);
  const Run run = yard.run("run-1");
  CHECK(run.life.status == RunStatus::completed);
  CHECK(run.life.exit_code == 0);
  CHECK(kinds(run) == Words{"submitted", "queued", "provisioning", "preparing", "starting",
                            "running", "finalizing", "ended"});
  CHECK(run.ended == yard.clock.wall());
  REQUIRE(run.attempts.size() == 1);
  CHECK(run.attempts[0].cpu_seconds == 2.5);
  REQUIRE(run.attempts[0].end);
  CHECK(run.attempts[0].end->ranks_started);
  CHECK(yard.control->load().cpus_used == 0);
  CHECK(yard.changed.count("run-1") == 3);  // Queued, claimed, and one call of reports.
}

TEST_CASE("the same submission again is the same run, another spec under its id a conflict") {
  Yard yard;
  yard.submit("run-1");
  const auto again = yard.control->submit({RunId{"run-1"}, Yard::spec(), "ada"});
  REQUIRE(again);
  CHECK(!again->created);
  CHECK(again->run.number == 1);
  RunSpec other = Yard::spec();
  other.command = {"false"};
  CHECK(kind_of(yard.control->submit({RunId{"run-1"}, other, "ada"})) == ErrorKind::conflict);
  CHECK(yard.control->runs({})->size() == 1);
}

TEST_CASE("200 submitters at once, each twice, make 200 runs") {
  Yard yard;
  std::atomic<int> created = 0;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> submitters;
    for (int i = 0; i < 400; ++i) {
      submitters.emplace_back([&, i] {
        const RunId id{"run-" + std::to_string(i / 2)};
        const auto submitted = yard.control->submit({id, store::plain_spec(), "ada"});
        if (!submitted) ++failed;
        if (submitted && submitted->created) ++created;
      });
    }
  }
  CHECK(failed == 0);
  CHECK(created == 200);
  CHECK(yard.store->count_runs(RunStatus::queued) == 200);
  CHECK(yard.control->load().queued == 200);
}

TEST_CASE("what the machine cannot do is refused with numbers") {
  Yard yard;
  const auto refused = [&](RunSpec spec) {
    auto submitted = yard.control->submit({RunId{"run-1"}, spec, "ada"});
    REQUIRE(!submitted);
    return submitted.error();
  };
  const Error cpus = refused(Yard::spec(3));
  CHECK(cpus.kind == ErrorKind::invalid);
  CHECK(cpus.message == "target local has 2 CPUs, 3 were asked for");
  RunSpec spec = Yard::spec();
  spec.resources.memory_bytes = 17 * kGb;
  CHECK(refused(spec).message == "target local has 16 GB of memory, 17 GB were asked for");
  spec = Yard::spec();
  spec.target = "cluster";
  CHECK(refused(spec).kind == ErrorKind::not_found);
  spec = Yard::spec();
  spec.workspace = "nowhere";
  CHECK(refused(spec).kind == ErrorKind::not_found);
  spec = Yard::spec();
  spec.nodes = 2;
  CHECK(refused(spec).kind == ErrorKind::invalid);
  spec = Yard::spec();
  spec.snapshot = "missing";
  CHECK(refused(spec).kind == ErrorKind::not_found);
  CHECK(kind_of(yard.control->submit({RunId{"../x"}, Yard::spec(), "ada"})) == ErrorKind::invalid);
  spec = Yard::spec();
  spec.resources.gpus = 8;
  CHECK(yard.control->submit({RunId{"run-2"}, spec, "ada"}));
}

TEST_CASE("a snapshot is looked at once") {
  Yard yard;
  RunSpec spec = Yard::spec();
  spec.snapshot = "abc";
  CHECK(yard.submit("run-1", spec).snapshot_bytes == 41);
  CHECK(yard.submit("run-2", spec).snapshot_files == 3);
  CHECK(yard.snapshot_checks == 1);
  CHECK(yard.run("run-2").snapshot_files == 3);
}

TEST_CASE("first come, first served: a large run holds back the small ones behind it") {
  Yard yard;
  yard.submit("small-1");
  yard.submit("large", Yard::spec(2));
  yard.submit("small-2");
  yard.control->tick();
  CHECK(yard.status("small-1") == RunStatus::provisioning);
  CHECK(yard.run("large").reason == "waits for 2 CPUs: 1 free of 2; position 1");
  CHECK(yard.run("small-2").reason == "waits for its turn behind 1 run; position 2");
  const auto listed = yard.control->runs({.status = "Queued"});
  REQUIRE(listed->size() == 2);
  CHECK(listed->front().reason == "waits for its turn behind 1 run; position 2");
  REQUIRE(yard.report("small-1", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.status("large") == RunStatus::provisioning);
  CHECK(yard.status("small-2") == RunStatus::queued);
}

TEST_CASE("memory is given out too") {
  Yard yard;
  RunSpec spec = Yard::spec();
  spec.resources.memory_bytes = 10 * kGb;
  yard.submit("run-1", spec);
  yard.submit("run-2", spec);
  yard.control->tick();
  CHECK(yard.run("run-2").reason == "waits for 10 GB of memory: 6.0 GB free of 16 GB; position 1");
}

TEST_CASE("reports that come twice, late or out of order count once and in order") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  // 3 before 2: only what follows without a gap is taken.
  auto orders = yard.report("run-1", 1, {phase(3, ReportKind::running)});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 0);
  orders =
      yard.report("run-1", 1, {phase(2, ReportKind::starting), phase(1, ReportKind::preparing)});
  CHECK(orders->seq_acknowledged == 2);
  orders =
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::starting)});
  CHECK(orders->seq_acknowledged == 2);
  orders = yard.report("run-1", 1, {phase(3, ReportKind::running)});
  CHECK(orders->seq_acknowledged == 3);
  CHECK(yard.run("run-1").events.size() == 6);
}

TEST_CASE("a sample changes the attempt and neither history nor version") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  const int64_t version = yard.run("run-1").version;
  Report sample{.seq = 1, .kind = ReportKind::sample};
  sample.cpu_seconds = 7;
  sample.memory_bytes = 100;
  sample.memory_peak_bytes = 200;
  REQUIRE(yard.report("run-1", 1, {sample}));
  sample.seq = 2;
  sample.cpu_seconds = 6;  // It cannot have used less.
  REQUIRE(yard.report("run-1", 1, {sample}));
  const Run run = yard.run("run-1");
  CHECK(run.version == version);
  CHECK(run.events.size() == 3);
  CHECK(run.attempts[0].cpu_seconds == 7);
  CHECK(run.attempts[0].memory_peak_bytes == 200);
}

TEST_CASE("an event's time is the report's, never before the event before it") {
  Yard yard;
  yard.submit("run-1");
  yard.clock.advance(seconds(10));
  yard.control->tick();
  const WallTime placed = yard.clock.wall();
  yard.clock.advance(seconds(10));
  Report early = phase(1, ReportKind::preparing);
  early.age_us = microseconds(seconds(4)).count();
  Report impossible = phase(2, ReportKind::starting);
  impossible.age_us = microseconds(std::chrono::hours(9)).count();
  REQUIRE(yard.report("run-1", 1, {early, impossible}));
  const Run run = yard.run("run-1");
  CHECK(run.events[3].at == placed + seconds(6));
  CHECK(run.events[4].at == placed + seconds(6));
}

TEST_CASE("a stale attempt is fenced off, and so is one of a run that is over") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  yard.engine.end({RunId{"run-1"}, 1}, "killed by signal 9");
  yard.control->tick();
  CHECK(yard.run("run-1").life.attempt == 2);
  CHECK(kind_of(yard.report("run-1", 1, whole_life())) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->orders({RunId{"run-1"}, 1})) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->orders({RunId{"run-1"}, 3})) == ErrorKind::conflict);
  REQUIRE(yard.report("run-1", 2, whole_life()));
  CHECK(kind_of(yard.report("run-1", 2, whole_life())) == ErrorKind::conflict);
  CHECK(kind_of(yard.report("run-1", 2, {})) == ErrorKind::conflict);
  CHECK(kind_of(yard.report("none", 1, {})) == ErrorKind::not_found);
}

TEST_CASE("a supervisor lost before user code ran is replaced, three times; after, the run fails") {
  Yard yard;
  yard.submit("early");
  for (int attempt = 1; attempt <= kLostEarlyMax; ++attempt) {
    yard.control->tick();
    REQUIRE(yard.report("early", attempt, {phase(1, ReportKind::preparing)}));
    yard.engine.end({RunId{"early"}, attempt}, "killed by signal 9");
  }
  yard.control->tick();
  const Run early = yard.run("early");
  CHECK(early.life.status == RunStatus::failed);
  CHECK(early.reason == "its supervisor is gone: killed by signal 9");
  CHECK(early.attempts.size() == kLostEarlyMax);

  yard.submit("late");
  yard.control->tick();
  REQUIRE(
      yard.report("late", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::starting)}));
  yard.engine.end({RunId{"late"}, 1}, "killed by signal 9");
  yard.control->tick();
  CHECK(yard.status("late") == RunStatus::failed);
  CHECK(yard.run("late").life.attempt == 1);
  CHECK(yard.control->load().cpus_used == 0);
}

TEST_CASE("a place that fails is tried again after a pause, and not for ever") {
  Yard yard;
  for (int i = 0; i < kLostEarlyMax; ++i) {
    yard.engine.fail_next_place(FakeEngine::Fault::refused);
  }
  yard.submit("run-1");
  const SteadyTime next = yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::queued);
  CHECK(next == yard.clock.steady() + seconds(1));
  yard.control->tick();
  CHECK(yard.run("run-1").life.attempt == 1);
  for (int i = 0; i < 2; ++i) {
    yard.clock.advance(seconds(1));
    yard.control->tick();
  }
  const Run run = yard.run("run-1");
  CHECK(run.life.status == RunStatus::failed);
  CHECK(run.reason.find("no process is to be had") != std::string::npos);
}

TEST_CASE("cancel ends a waiting run at once and orders a live one to stop") {
  Yard yard;
  yard.submit("live", Yard::spec(2));
  yard.submit("waiting");
  yard.control->tick();
  const auto waiting = yard.control->cancel(RunId{"waiting"}, "ada");
  REQUIRE(waiting);
  CHECK(waiting->life.status == RunStatus::canceled);
  CHECK(kinds(*waiting) == Words{"submitted", "queued", "cancel_requested", "ended"});
  CHECK(yard.control->load().queued == 0);
  REQUIRE(yard.report("live", 1, {phase(1, ReportKind::preparing)}));
  const auto live = yard.control->cancel(RunId{"live"}, "ada");
  REQUIRE(live);
  CHECK(live->life.status == RunStatus::cancel_requested);
  CHECK(yard.control->orders({RunId{"live"}, 1})->cancel);
  const auto again = yard.control->cancel(RunId{"live"}, "ada");
  REQUIRE(again);
  CHECK(again->version == live->version);
  REQUIRE(yard.report("live", 1, {phase(2, ReportKind::finalizing), ended(3, EndCause::canceled)}));
  CHECK(yard.status("live") == RunStatus::canceled);
  CHECK(kind_of(yard.control->cancel(RunId{"live"}, "ada")) == ErrorKind::conflict);
  CHECK(kind_of(yard.control->cancel(RunId{"none"}, "ada")) == ErrorKind::not_found);
}

TEST_CASE("a silent supervisor that is gone is lost after its lease") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  yard.engine.end({RunId{"run-1"}, 1}, "", FakeEngine::Tell::no);
  yard.clock.advance(seconds(30));
  yard.control->tick();
  yard.clock.advance(seconds(29));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::running);
  yard.clock.advance(seconds(1));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::failed);
  CHECK(yard.run("run-1").reason == "its supervisor is gone: it was not heard of for 60 s");
}

TEST_CASE("a silent supervisor that lives is given ten minutes, then killed") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  const SteadyTime heard = yard.clock.steady();
  SteadyTime next = yard.control->tick();
  while (yard.status("run-1") == RunStatus::running) {
    REQUIRE(next < heard + seconds(700));
    yard.clock.advance(next - yard.clock.steady());
    next = yard.control->tick();
  }
  CHECK(yard.clock.steady() - heard == seconds(600));
  CHECK(yard.engine.live().empty());
  CHECK(yard.run("run-1").reason == "its supervisor was not heard of for 600 s and was killed");
}

TEST_CASE("a laptop that slept for an hour kills nobody") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  yard.clock.advance(std::chrono::hours(1));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::running);
  REQUIRE(yard.report("run-1", 1, {}));
}

TEST_CASE("after a restart every run is taken up, and what was never placed is placed") {
  Yard yard;
  yard.submit("live");
  yard.engine.fail_next_place(FakeEngine::Fault::dropped);
  yard.control->tick();
  // The first place was dropped: claimed, and the server died before it was placed.
  CHECK(yard.engine.live().empty());
  yard.submit("placed");
  yard.control->tick();
  REQUIRE(yard.report("placed", 1, {phase(1, ReportKind::preparing)}));
  yard.submit("waiting");
  yard.restart();
  CHECK(yard.engine.live().size() == 2);
  CHECK(yard.control->load().cpus_used == 2);
  CHECK(yard.control->load().queued == 1);
  yard.control->tick();
  CHECK(yard.status("waiting") == RunStatus::queued);
  const auto assignment = yard.engine.assignment({RunId{"live"}, 1});
  REQUIRE(assignment);
  CHECK(yard.store->identify(assignment->token));
  REQUIRE(yard.report("live", 1, whole_life()));
  REQUIRE(yard.report("placed", 1, {phase(2, ReportKind::starting)}));
  yard.control->tick();
  CHECK(yard.status("waiting") == RunStatus::provisioning);
}

TEST_CASE("a supervisor that died with the server is lost at the restart") {
  Yard yard;
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(
      yard.report("run-1", 1, {phase(1, ReportKind::preparing), phase(2, ReportKind::running)}));
  yard.engine.end({RunId{"run-1"}, 1}, "", FakeEngine::Tell::no);
  yard.restart();
  CHECK(yard.status("run-1") == RunStatus::failed);
}

TEST_CASE("an ended attempt's node is cleared once its supervisor has ended, over a restart too") {
  Yard yard;
  const AttemptId one{RunId{"run-1"}, 1};
  yard.submit("run-1");
  yard.control->tick();
  REQUIRE(yard.report("run-1", 1, whole_life()));
  yard.control->tick();
  CHECK(yard.engine.unreleased().size() == 1);
  yard.restart();
  yard.control->tick();
  CHECK(yard.engine.unreleased().size() == 1);
  yard.engine.end(one, "exit 0");
  yard.control->tick();
  CHECK(yard.engine.unreleased().empty());
  yard.restart();
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::completed);
}

TEST_CASE("the loop places what is submitted and goes on when an attempt ends") {
  Yard yard;
  std::atomic<int> placed = 0;
  yard.engine.set_hooks({.placed = [&](const Assignment&) {
    ++placed;
    placed.notify_all();
  }});
  std::jthread loop([&](std::stop_token stop) { yard.control->run(stop); });
  const auto wait_for = [&](int count) {
    for (int now = placed; now < count; now = placed) placed.wait(now);
  };
  yard.submit("run-1", Yard::spec(2));
  wait_for(1);
  yard.submit("run-2", Yard::spec(2));
  REQUIRE(yard.report("run-1", 1, whole_life()));
  wait_for(2);
  CHECK(yard.engine.assignment({RunId{"run-2"}, 1}));
}
