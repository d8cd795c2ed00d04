// Runs that wait for their environments, with seeded faults: builds that end well or not, cancels,
// and a server that is killed.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/fake_clock.h"
#include "control/control.h"
#include "engine/fake.h"
#include "random.h"
#include "store/history.h"

using namespace trainyard;

namespace {

constexpr int kRuns = 60;
constexpr int kEnvironments = 5;

class HeldWorld {
 public:
  explicit HeldWorld(uint64_t seed) : random_(seed) { start(); }

  // The broken rule, or empty.
  std::string live() {
    for (int step = 0; broken_.empty() && over_.size() < kRuns; ++step) {
      if (step > 5000) return "not every run comes to its end";
      clock_.advance(random_.pause(milliseconds(1), seconds(5)));
      happen();
      control_->tick();
      check_placed();
    }
    const auto load = control_->load("default/lab");
    expect(load.queued == 0 && load.live == 0, "the queue is miscounted");
    return broken_;
  }
  int failed = 0;
  int canceled = 0;
  int restarts = 0;

 private:
  void expect(bool holds, const std::string& rule) {
    if (!holds && broken_.empty()) broken_ = rule;
  }
  void start() {
    control_.reset();
    store_.reset();
    store_ = store::Store::open(dir_.path() / "trainyard.db", clock_, {.sync = false}).value();
    control_ = control::Control::create(
        {.clock = clock_,
         .store = *store_,
         .engine = here_,
         .log = log_,
         .addresses = {},
         .snapshot_check = [](std::string_view) { return Result<control::SnapshotSize>({}); },
         .environment_ready = [this](const Environment& of) { return made_.contains(of.hash); },
         .changed = {}});
    control_->add_target("default/lab",
                         std::shared_ptr<engine::Engine>(std::shared_ptr<void>(), &lab_));
    expect(control_->recover().has_value(), "the server does not recover");
  }

  void happen() {
    const int64_t chance = random_.between(0, 99);
    if (chance < 40 && submitted_ < kRuns) return submit();
    if (chance < 60) return end_build();
    if (chance < 65) return cancel();
    if (chance < 70) {
      ++restarts;
      return start();
    }
    end_one();
  }

  void submit() {
    RunSpec spec = store::plain_spec();
    spec.target = "lab";
    const int64_t which = random_.between(0, kEnvironments);
    if (which > 0) {
      spec.environment.recipe.kind = EnvironmentKind::venv;
      spec.environment.recipe.requirements = {"package-" + std::to_string(which)};
      spec.environment.hash = recipe_hash(spec.environment.recipe);
    }
    const RunId id{"run-" + std::to_string(submitted_++)};
    const auto submitted = control_->submit({id, spec, "ada"});
    expect(submitted.has_value(), "a good submission was refused");
    const std::string& hash = spec.environment.hash;
    expect(submitted->run.held == (made_.contains(hash) ? "" : hash), "held for no reason, or not");
    wants_[id] = hash;
  }

  // As the server's rounds do it: from the database.
  void end_build() {
    std::map<std::string, std::vector<RunId>> held;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(const auto runs, store::held_runs(db));
      for (const store::HeldRun& run : runs) held[run.environment].push_back(run.id);
      return {};
    };
    expect(store_->read(look).has_value(), "the held runs cannot be read");
    if (held.empty()) return;
    auto chosen = held.begin();
    std::advance(chosen, random_.between(0, static_cast<int64_t>(held.size()) - 1));
    if (random_.percent(70)) {
      made_.insert(chosen->first);
      expect(control_->let_go(chosen->second).has_value(), "nobody could be let go");
      return;
    }
    expect(control_->fail_held(chosen->second, "environment: no").has_value(), "nobody was told");
    for (const RunId& id : chosen->second) {
      const Run run = control_->run(id).value();
      expect(run.life.status == RunStatus::failed && run.life.attempt == 0,
             id.value + " did not fail in the queue");
      over_.insert(id);
      ++failed;
    }
  }

  void cancel() {
    if (submitted_ == 0) return;
    const RunId id{"run-" + std::to_string(random_.between(0, submitted_ - 1))};
    if (over_.contains(id) || stopping_.contains(id)) return;
    const bool held = !control_->run(id).value().held.empty();
    const auto run = control_->cancel(id, "ada");
    expect(run.has_value(), "a cancel was refused");
    expect(!held || run->life.status == RunStatus::canceled,
           id.value + " was not canceled at once");
    stopping_.insert(id);
    ++canceled;
  }

  void check_placed() {
    for (const RunId& id : stopping_) {
      if (is_final(control_->run(id).value().life.status)) over_.insert(id);
    }
    for (const AttemptId& attempt : lab_.live()) {
      const std::string& hash = wants_[attempt.run];
      expect(hash.empty() || made_.contains(hash), attempt.str() + " was placed too early");
    }
  }

  void end_one() {
    const std::vector<AttemptId> live = lab_.live();
    if (live.empty()) return;
    const AttemptId attempt =
        live[static_cast<size_t>(random_.between(0, static_cast<int64_t>(live.size()) - 1))];
    Report report{.seq = 1, .kind = ReportKind::ended};
    report.end.ranks_started = true;
    expect(control_->report(attempt, {&report, 1}).has_value(), "an end was not heard");
    lab_.end(attempt, "exit 0", engine::FakeEngine::Tell::no);
    over_.insert(attempt.run);
  }

  sim::Random random_;
  FakeClock clock_;
  NullLog log_;
  TempDir dir_;
  engine::FakeEngine here_{{.cpus = 1, .memory_bytes = 1 << 30}};
  engine::FakeEngine lab_{{.nodes = 4, .window = 3}};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Control> control_;
  std::set<std::string> made_ = {""};
  std::map<RunId, std::string> wants_;
  std::set<RunId> over_;
  std::set<RunId> stopping_;  // Canceled, and perhaps not over.
  int64_t submitted_ = 0;
  std::string broken_;
};

}  // namespace

TEST_CASE("no run has a node before its environment is made, and none is held for ever") {
  int failed = 0;
  int canceled = 0;
  int restarts = 0;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    HeldWorld world(seed);
    const std::string broken = world.live();
    CHECK_MESSAGE(broken.empty(), "seed ", seed, ": ", broken);
    failed += world.failed;
    canceled += world.canceled;
    restarts += world.restarts;
  }
  CHECK(failed > 50);
  CHECK(canceled > 10);
  CHECK(restarts > 10);
}
