#include "api/gate.h"

#include <doctest/doctest.h>
#include <poll.h>

#include "api/run_files.h"
#include "api/test_yard.h"

namespace trainyard::api {
namespace {

// A cluster, an environment for each package, and builds that wait for a word.
struct GateYard {
  GateYard() { open(); }
  ~GateYard() { close(); }

  void open() {
    environments = std::make_unique<Environments>(Environments::Parts{
        .clock = clock,
        .log = log,
        .folder = home.environments(),
        .blobs = *blobs,
        .settings = {},
        .bytes_max = 0,
        .secret = {},
        .build = [this](const Environment& environment, const fs::path& made, const env::Settings&,
                        env::Watcher& watcher) { return build(environment, made, watcher); },
        .changed = {}});
    control = control::Control::create(
        {.clock = clock,
         .store = *store,
         .engine = engine,
         .log = log,
         .addresses = {},
         .snapshot_check = [](std::string_view) { return Result<control::SnapshotSize>({}); },
         .environment_words = [this](const auto& of) { return environments->words(of); },
         .environment_ready = [this](const auto& of) { return environments->is_packed(of); },
         .changed = {}});
    control->add_target("default/lab", cluster);
    REQUIRE(control->recover());
    gate = std::make_unique<Gate>(Gate::Parts{.log = log,
                                              .store = *store,
                                              .control = *control,
                                              .logs = logs,
                                              .environments = *environments,
                                              .printed = [this](const RunId&) { ++printed; }});
  }
  void close() {
    environments.reset();
    gate.reset();
    control.reset();
  }

  Result<Realised> build(const Environment& environment, const fs::path& made,
                         env::Watcher& watcher) {
    ++builds;
    watcher.line("build " + std::to_string(builds) + " begins");
    while (!go && !watcher.stopped()) poll(nullptr, 0, 1);
    if (watcher.stopped()) return fail(ErrorKind::cancelled, "stopped");
    if (fails) return fail(ErrorKind::invalid, "no such package: pear", "See line 1.");
    TRY(make_dirs(made / "root"));
    TRY(write_file(made / "root" / "tool", "#!/bin/sh\n", 0755));
    watcher.line("build ends");
    return Realised{.kind = environment.recipe.kind};
  }

  Run submit(const std::string& id) {
    RunSpec spec;
    spec.experiment = "tests";
    spec.target = "lab";
    spec.command = {"true"};
    spec.environment.recipe.kind = EnvironmentKind::venv;
    spec.environment.recipe.requirements = {"pear"};
    spec.environment.hash = recipe_hash(spec.environment.recipe);
    return control->submit({RunId{id}, spec, "ada"}).value().run;
  }
  Run run(const std::string& id) { return control->run(RunId{id}).value(); }
  std::string log_of(const std::string& id) {
    const auto file = store->file(RunId{id}, kBuildLog).value();
    const auto fd = logs.open_file(RunId{id}, file.number);
    if (!fd) return {};
    return read_at(fd->get(), 0, file_size(fd->get(), "log").value(), "log").value();
  }
  // Rounds until the run is not held any more.
  void rounds(const std::string& id) {
    for (int i = 0; i < 3000 && !run(id).held.empty(); ++i) {
      REQUIRE(gate->round());
      poll(nullptr, 0, 5);
    }
    REQUIRE(run(id).held.empty());
  }
  void rounds_until(const std::function<bool()>& holds) {
    for (int i = 0; i < 3000 && !holds(); ++i) {
      REQUIRE(gate->round());
      poll(nullptr, 0, 5);
    }
    REQUIRE(holds());
  }

  TempDir dir;
  Home home{dir.path() / "home"};
  Status prepared = prepare_home(home);
  MonotoneClock clock;
  NullLog log;
  StillEngine engine;
  std::shared_ptr<StillEngine> cluster = std::make_shared<StillEngine>();
  std::unique_ptr<store::Store> store =
      store::Store::open(home.database(), clock, {.sync = false}).value();
  std::unique_ptr<blob::Store> blobs = blob::open_folder(home.blobs(), home.tmp()).value();
  logs::LogStore logs{home};
  std::atomic<int> builds{0};
  std::atomic<bool> go{false};
  std::atomic<bool> fails{false};
  int printed = 0;
  std::unique_ptr<Environments> environments;
  std::unique_ptr<control::Control> control;
  std::unique_ptr<Gate> gate;
};

TEST_CASE("runs are held while their environment is made once, and have its log meanwhile") {
  GateYard yard;
  CHECK(yard.gate->round() == false);
  for (const char* id : {"run-1", "run-2"}) CHECK(yard.submit(id).held.size() == 64);
  yard.rounds_until(
      [&] { return yard.log_of("run-2").find("build 1 begins\n") != std::string::npos; });
  CHECK(yard.printed >= 2);
  CHECK(yard.submit("run-3").held.size() == 64);
  CHECK(yard.run("run-3").reason ==
        "environment " + yard.run("run-3").held.substr(0, 6) + " is being built");
  CHECK(yard.gate->round() == true);
  CHECK(yard.log_of("run-3") == yard.log_of("run-1"));  // From its beginning.
  yard.go = true;
  yard.rounds("run-1");
  CHECK(yard.builds == 1);
  for (const char* id : {"run-1", "run-2", "run-3"}) {
    CHECK(yard.run(id).held.empty());
    CHECK(yard.log_of(id) == yard.log_of("run-1"));
  }
  CHECK(yard.log_of("run-1").find("build ends\npacked for nodes: 1 files") != std::string::npos);
  CHECK(yard.submit("run-4").held.empty());
  CHECK(yard.gate->round() == false);
}

TEST_CASE("a build that fails ends the runs that are held for it, in its words") {
  GateYard yard;
  yard.submit("run-1");
  yard.fails = yard.go = true;
  yard.rounds("run-1");
  const Run failed = yard.run("run-1");
  CHECK(failed.life.status == RunStatus::failed);
  CHECK(failed.life.error == "environment: no such package: pear (See line 1.)");
  CHECK(failed.attempts.empty());
  CHECK(yard.log_of("run-1").find("begins") != std::string::npos);
}

TEST_CASE("after the server's end a run is still held, and its build begins again") {
  GateYard yard;
  yard.submit("run-1");
  yard.rounds_until(
      [&] { return yard.log_of("run-1").find("build 1 begins\n") != std::string::npos; });
  yard.close();
  yard.open();
  CHECK(yard.run("run-1").held.size() == 64);
  yard.rounds_until(
      [&] { return yard.log_of("run-1").find("build 2 begins\n") != std::string::npos; });
  CHECK(yard.log_of("run-1").find("build 1") == std::string::npos);  // Of one build alone.
  yard.go = true;
  yard.rounds("run-1");
  CHECK(yard.run("run-1").life.status == RunStatus::queued);
}

TEST_CASE("a run that finds it made when it is looked after is let go") {
  GateYard yard;
  yard.go = true;
  yard.submit("run-1");
  yard.rounds("run-1");
  // As one that came in between: held, and nothing is being made.
  const auto hold = [&](db::Transaction& transaction) -> Status {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), RunId{"run-1"}));
    head.held = yard.run("run-1").spec.environment.hash;
    return store::save_run(transaction, head);
  };
  REQUIRE(yard.store->write(Durable::no, hold));
  yard.close();
  yard.open();
  REQUIRE(yard.gate->round());
  CHECK(yard.run("run-1").held.empty());
  CHECK(yard.builds == 1);
}

TEST_CASE("the gate makes its rounds by itself, woken by who comes and by what is further") {
  GateYard yard;
  yard.gate->start();
  yard.submit("run-1");
  yard.gate->add();
  for (int i = 0; i < 3000 && yard.builds == 0; ++i) poll(nullptr, 0, 5);
  REQUIRE(yard.builds == 1);
  yard.go = true;
  for (int i = 0; i < 3000 && !yard.run("run-1").held.empty(); ++i) {
    yard.gate->changed();
    poll(nullptr, 0, 5);
  }
  CHECK(yard.run("run-1").held.empty());
  yard.gate->stop();
}

}  // namespace
}  // namespace trainyard::api
