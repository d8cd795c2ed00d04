#include "control/yard.h"

// Runs for elsewhere wait for their environment before they are given a place.
using namespace trainyard;
using namespace trainyard::control;

namespace {

struct HeldYard : Yard {
  std::shared_ptr<FakeEngine> cluster =
      std::make_shared<FakeEngine>(engine::Capacity{.nodes = 4, .window = 8});
  std::set<std::string> ready;  // Hashes.
  int looks = 0;
  std::string words;

  HeldYard() { begin(); }
  void begin() {
    environment_ready = [this](const Environment& environment) {
      ++looks;
      return ready.contains(environment.hash);
    };
    environment_words = [this](const Environment&) { return words; };
    restart();
    control->add_target("default/lab", cluster);
  }
  static RunSpec in(const std::string& package, const std::string& target = "lab") {
    RunSpec spec = Yard::spec();
    spec.target = target;
    spec.environment.recipe.kind = EnvironmentKind::venv;
    spec.environment.recipe.requirements = {package};
    spec.environment.hash = recipe_hash(spec.environment.recipe);
    return spec;
  }
  static std::string hash_of(const std::string& package) { return in(package).environment.hash; }
  Status let_go(const std::string& id) {
    const RunId run{id};
    return control->let_go({&run, 1});
  }
};

}  // namespace

TEST_CASE("a run for elsewhere gets no place before its environment is made") {
  HeldYard yard;
  const Run submitted = yard.submit("held", HeldYard::in("pear"));
  CHECK(submitted.held == HeldYard::hash_of("pear"));
  const std::string built = "environment " + HeldYard::hash_of("pear").substr(0, 6);
  CHECK(submitted.reason == built + " is to be built");
  RunSpec plain = Yard::spec();
  plain.target = "lab";
  yard.submit("plain", plain);
  CHECK(yard.run("plain").reason == "is about to start; position 1");  // It holds nobody back.
  CHECK(yard.control->load("default/lab").queued == 2);
  yard.control->tick();
  CHECK(yard.cluster->live() == std::vector<AttemptId>{{RunId{"plain"}, 1}});
  yard.words = built + " is being built: 14 of 31 packages";
  CHECK(yard.run("held").reason == yard.words);
  CHECK(yard.control->runs({})->back().reason == yard.words);

  REQUIRE(yard.let_go("held"));
  CHECK(yard.run("held").held.empty());
  CHECK(yard.run("held").reason == "is about to start; position 1");
  yard.control->tick();
  CHECK(yard.status("held") == RunStatus::provisioning);
  CHECK(yard.control->load("default/lab").queued == 0);
  REQUIRE(yard.let_go("held"));  // Too late, and no harm.
  CHECK(yard.status("held") == RunStatus::provisioning);
}

TEST_CASE("what is made already, and what runs here, is not held") {
  HeldYard yard;
  yard.ready.insert(HeldYard::hash_of("pear"));
  CHECK(yard.submit("made", HeldYard::in("pear")).held.empty());
  CHECK(yard.looks == 1);
  CHECK(yard.submit("here", HeldYard::in("plum", "local")).held.empty());
  CHECK(yard.submit("plain").held.empty());
  CHECK(yard.looks == 1);  // Nobody here has to wait even for a look.
  yard.control->tick();
  CHECK(yard.status("made") == RunStatus::provisioning);
  CHECK(yard.status("here") == RunStatus::provisioning);
}

TEST_CASE("a build that fails ends those that are held for it, and no node was taken") {
  HeldYard yard;
  yard.submit("run-1", HeldYard::in("pear"));
  yard.submit("run-2", HeldYard::in("pear"));
  yard.submit("other", HeldYard::in("plum"));
  const std::vector<RunId> runs{RunId{"run-1"}, RunId{"run-2"}, RunId{"no such run"}};
  REQUIRE(yard.control->fail_held(runs, "environment: no such package: pear (see line 1)"));
  for (const char* id : {"run-1", "run-2"}) {
    const Run run = yard.run(id);
    CHECK(run.life.status == RunStatus::failed);
    CHECK(run.life.exit_code == 1);
    CHECK(run.life.error == "environment: no such package: pear (see line 1)");
    CHECK(run.held.empty());
    CHECK(run.attempts.empty());
    CHECK(kinds(run) == Words{"submitted", "queued", "building", "ended"});
  }
  CHECK(yard.status("other") == RunStatus::queued);
  CHECK(yard.control->load("default/lab").queued == 1);
  yard.control->tick();
  CHECK(yard.cluster->live().empty());
  REQUIRE(yard.control->fail_held(runs, "again"));
  CHECK(yard.run("run-1").life.error == "environment: no such package: pear (see line 1)");
}

TEST_CASE("a run that is held is canceled at once") {
  HeldYard yard;
  yard.submit("run-1", HeldYard::in("pear"));
  const auto canceled = yard.control->cancel(RunId{"run-1"}, "ada");
  REQUIRE(canceled);
  CHECK(canceled->life.status == RunStatus::canceled);
  CHECK(canceled->held.empty());
  CHECK(yard.control->load("default/lab").queued == 0);
  REQUIRE(yard.let_go("run-1"));
  yard.submit("run-2", HeldYard::in("pear"));
  REQUIRE(yard.let_go("run-2"));
  CHECK(yard.run("run-2").reason == "is about to start; position 1");
}

TEST_CASE("a run that is held is held after a restart, and goes on when it is let go") {
  HeldYard yard;
  yard.submit("run-1", HeldYard::in("pear"));
  yard.begin();
  CHECK(yard.run("run-1").held == HeldYard::hash_of("pear"));
  CHECK(yard.control->load("default/lab").queued == 1);
  RunSpec plain = Yard::spec();
  plain.target = "lab";
  CHECK(yard.submit("plain", plain).reason == "is about to start; position 1");
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::queued);
  REQUIRE(yard.let_go("run-1"));
  yard.control->tick();
  CHECK(yard.status("run-1") == RunStatus::provisioning);
}
