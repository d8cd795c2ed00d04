#include "api/build_runs.h"

#include <poll.h>

#include <future>

#include "api/test_yard.h"
#include "base/hash.h"
#include "store/workspaces.h"

namespace trainyard::api {
namespace {

// Everything it was told.
class Heard final : public env::Watcher {
 public:
  void line(std::string_view text) override {
    all.with([&](auto& lines) { lines += std::string(text) + "\n"; });
  }
  void progress(std::string_view words) override {
    all.with([&](auto& lines) { lines += "# " + std::string(words) + "\n"; });
  }
  bool stopped() const override { return stop; }
  std::string text() {
    return all.with([](auto& lines) { return lines; });
  }

  Guarded<std::string> all;
  std::atomic<bool> stop{false};
};

// A yard whose workspace has its environments built on a compute, by an engine that does nothing:
// the test says what the run does there.
struct BuildYard : Yard {
  BuildYard() {
    control->add_target("default/builders", cluster);
    set_compute("builders");
    wanted.workspace = "default";
    wanted.user = "ada";
    wanted.need = Environments::Need::tree;
    wanted.environment.recipe.kind = EnvironmentKind::venv;
    wanted.environment.recipe.requirements = {"pear"};
    wanted.environment.hash = recipe_hash(wanted.environment.recipe);
  }
  void set_compute(const std::string& name) {
    const auto change = [&](db::Transaction& transaction) -> Status {
      TRY(transaction.run("UPDATE workspaces SET image_build_compute = ?", {name}));
      return {};
    };
    REQUIRE(store->write(Durable::no, change));
  }
  BuildRuns build_runs() {
    return BuildRuns({.clock = clock,
                      .log = log,
                      .store = *store,
                      .control = *control,
                      .blobs = *blobs,
                      .logs = *logs,
                      .trees = house->trees,
                      .stopping = [this] { return stopping.load(); }});
  }
  using Made = Result<std::optional<Environments::Made>>;
  std::future<Made> begin() {
    return std::async(std::launch::async, [this] { return build_runs().build(wanted, heard); });
  }
  // The run that builds it, placed.
  Run build_run(size_t number = 1) {
    for (int i = 0; i < 3000; ++i) {
      const auto runs = store->runs({.workspace = "default", .experiment = "environments"});
      REQUIRE(runs);
      if (runs->size() == number) {
        control->tick();
        return control->run(runs->front().id).value();
      }
      poll(nullptr, 0, 5);
    }
    FAIL("no run builds it");
    return {};
  }
  void print(const Run& run, const std::string& text) {
    const logs::Piece piece{logs::Stream::out, text};
    REQUIRE(logs->append({run.id, 1}, 0, 0, {&piece, 1}));
  }
  std::string keep(const std::string& text) {
    REQUIRE(blobs->put(sha256(text), text));
    return text;
  }
  // What the program on the node would have put out.
  std::string outputs(const std::string& hash) {
    const std::string about = keep(wire::dump(wire::encode(Realised{.kind = EnvironmentKind::venv,
                                                                    .hash = hash,
                                                                    .lock = {"pear==2.5"},
                                                                    .python = "root/bin/python"})));
    const std::string tool = keep("#!/bin/sh\n");
    snapshot::Tree tree;
    tree.entries.push_back(
        {.path = "environment.json", .size = about.size(), .digest = sha256(about)});
    tree.entries.push_back({.kind = snapshot::EntryKind::symlink,
                            .path = "root/bin/python",
                            .target = "/usr/bin/python3"});
    tree.entries.push_back({.kind = snapshot::EntryKind::executable,
                            .path = "root/bin/tool",
                            .size = tool.size(),
                            .digest = sha256(tool)});
    return sha256(keep(snapshot::encode(tree))).hex();
  }
  void end(const Run& run, int exit_code, const std::string& tree = {}) {
    Report report{.seq = 1, .kind = ReportKind::ended};
    report.end.exit_code = exit_code;
    report.end.ranks_started = true;
    report.end.error = exit_code == 0 ? "" : "rank 0 exited with code 1";
    report.end.outputs = tree;
    REQUIRE(control->report({{run.id, 1}}, {&report, 1}));
  }

  std::shared_ptr<StillEngine> cluster = std::make_shared<StillEngine>();
  Environments::Wanted wanted;
  Heard heard;
  std::atomic<bool> stopping{false};
};

TEST_CASE("an environment is built by a run on the compute that its workspace names") {
  BuildYard yard;
  yard.wanted.environment.registry.secret = "";
  auto made = yard.begin();
  const Run run = yard.build_run();
  CHECK(run.spec.target == "builders");
  CHECK(run.spec.display_name == "environment " + short_hash(yard.wanted.environment.hash));
  CHECK(run.spec.tags.at("environment") == yard.wanted.environment.hash);
  CHECK(run.spec.environment.hash.empty());
  CHECK(run.user == "ada");
  const auto code = yard.house->trees.tree(run.spec.snapshot).value();
  REQUIRE(code->entries.size() == 1);
  CHECK(code->entries[0].path == "environment.json");
  yard.print(run, "begins\n# 1 of 2 packages\nends\n");
  yard.end(run, 0, yard.outputs(yard.wanted.environment.hash));
  const auto done = made.get();
  REQUIRE_MESSAGE(done, done.error().message);
  REQUIRE(*done);
  const Environments::Made& environment = **done;
  CHECK(environment.realised.lock == std::vector<std::string>{"pear==2.5"});
  REQUIRE(environment.tree.entries.size() == 2);
  CHECK(environment.tree.entries[0].path == "bin/python");
  CHECK(environment.tree.entries[0].target == "/usr/bin/python3");
  CHECK(environment.tree.entries[1].kind == snapshot::EntryKind::executable);
  CHECK(sha256(snapshot::encode(environment.tree)).hex() == environment.realised.tree);
  CHECK(yard.heard.text().find("begins\n# 1 of 2 packages\nends\n") != std::string::npos);
  // Asked for again, it was built before.
  const auto again = yard.begin().get();
  REQUIRE(again);
  CHECK((**again).realised.tree == environment.realised.tree);
  CHECK(yard.store->runs({.workspace = "default", .experiment = "environments"})->size() == 1);
}

TEST_CASE(
    "a build folder comes with the run, and the password of a registry by its secret's name") {
  BuildYard yard;
  const std::string dockerfile = yard.keep("FROM scratch\n");
  snapshot::Tree context;
  context.entries.push_back(
      {.path = "Dockerfile", .size = dockerfile.size(), .digest = sha256(dockerfile)});
  Environment& environment = yard.wanted.environment;
  environment.recipe.context = sha256(yard.keep(snapshot::encode(context))).hex();
  environment.registry.secret = "REGISTRY";
  const auto refused = yard.begin().get();  // The workspace has no such secret.
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("REGISTRY") != std::string::npos);
  const auto seal = [&](db::Transaction& transaction) -> Status {
    TRY(transaction.run("INSERT INTO secrets VALUES (1, 'REGISTRY', x'00', 'ada', 1, 1)"));
    return {};
  };
  REQUIRE(yard.store->write(Durable::no, seal));
  auto made = yard.begin();
  const Run run = yard.build_run();
  CHECK(run.spec.secrets == std::vector<std::string>{"REGISTRY"});
  const auto code = yard.house->trees.tree(run.spec.snapshot).value();
  REQUIRE(code->entries.size() == 2);
  CHECK(code->entries[0].path == "context/Dockerfile");
  yard.end(run, 0, yard.outputs(environment.hash));
  CHECK(made.get());
}

TEST_CASE("a build that fails, or is canceled, is told in its words, and the next is another run") {
  BuildYard yard;
  auto made = yard.begin();
  Run run = yard.build_run();
  yard.print(run, "begins\nerror: no such package: pear\n  in line 1\n");
  yard.end(run, 1, yard.outputs(yard.wanted.environment.hash));
  auto done = made.get();
  REQUIRE_FALSE(done);
  CHECK(done.error().message == "no such package: pear\n  in line 1");
  CHECK(done.error().hint.find(run.id.value) != std::string::npos);

  made = yard.begin();
  run = yard.build_run(2);
  REQUIRE(yard.control->cancel(run.id, "ada"));
  Report report{.seq = 1, .kind = ReportKind::ended};
  report.end.cause = EndCause::canceled;
  report.end.error = "canceled by ada";
  REQUIRE(yard.control->report({{run.id, 1}}, {&report, 1}));
  done = made.get();
  REQUIRE_FALSE(done);
  CHECK(done.error().kind == ErrorKind::conflict);
  CHECK(done.error().message ==
        "run " + run.id.value + ", which was to build it, was stopped: canceled by ada");
}

TEST_CASE("a run that says it has built it is not believed") {
  BuildYard yard;
  RunSpec spec;
  spec.experiment = "environments";
  spec.command = {"true"};
  spec.tags = {{"environment", yard.wanted.environment.hash}};
  REQUIRE(yard.control->submit({RunId{"forged"}, spec, "eve"}));
  yard.control->tick();
  yard.end(yard.control->run(RunId{"forged"}).value(), 0,
           yard.outputs(yard.wanted.environment.hash));
  auto made = yard.begin();
  const Run run = yard.build_run(2);
  CHECK(run.id != RunId{"forged"});
  // And one that has built another environment is of no use either.
  yard.end(run, 0, yard.outputs(std::string(64, 'b')));
  const auto done = made.get();
  REQUIRE_FALSE(done);
  CHECK(done.error().message.find("another environment") != std::string::npos);
}

TEST_CASE("a server that goes leaves its build alone and finds it again; one for nobody is ended") {
  BuildYard yard;
  auto made = yard.begin();
  const Run run = yard.build_run();
  yard.stopping = true;
  yard.heard.stop = true;
  CHECK(made.get().error().kind == ErrorKind::cancelled);
  CHECK(yard.control->run(run.id)->life.status == RunStatus::provisioning);
  yard.stopping = false;
  yard.heard.stop = false;
  made = yard.begin();
  yard.heard.stop = true;
  CHECK(made.get().error().kind == ErrorKind::cancelled);
  CHECK(yard.control->run(run.id)->life.status == RunStatus::cancel_requested);
  CHECK(yard.store->runs({.workspace = "default", .experiment = "environments"})->size() == 1);
}

TEST_CASE("where no compute is named it is not built elsewhere, and one that is gone is told of") {
  BuildYard yard;
  yard.set_compute("nowhere");
  const auto failed = yard.begin().get();
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message ==
        "it is to be built on compute nowhere: target 'nowhere' does not exist");
  CHECK(failed.error().hint.find("--image-build-compute") != std::string::npos);
  yard.set_compute("");
  const auto here = yard.begin().get();
  REQUIRE(here);
  CHECK_FALSE(*here);
}

}  // namespace
}  // namespace trainyard::api
