#include "control/environments.h"

#include "control/yard.h"
#include "store/environments.h"
#include "store/secrets.h"

using namespace trainyard;
using namespace trainyard::control;

namespace {

// A yard with the environment `mine` registered: numpy, and a variable.
struct Registered {
  Yard yard;
  std::string image_digest;  // Of an image that is a file.
  std::map<std::string, std::string> rebuilds = {};
  Registered() {
    EnvironmentRecord record;
    record.environment.name = "mine";
    record.environment.recipe.kind = EnvironmentKind::venv;
    record.environment.recipe.requirements = {"numpy"};
    record.environment.variables = {{"A", "1"}};
    put(record);
  }
  void put(const EnvironmentRecord& record) {
    REQUIRE(yard.store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY(store::register_environment(t, "default", record));
      return {};
    }));
  }
  Result<Environment> resolved(const Environment& asked, Role role = Role::submitter,
                               const std::string& rerun_of = {}) const {
    EnvironmentRules rules;
    rules.check = [](Environment& environment, const EnvironmentUse& use) -> Status {
      if (use.role == Role::admin) return {};
      if (!environment.arguments.empty()) return fail(ErrorKind::denied, "arguments");
      environment.host_paths = {"/data"};
      return {};
    };
    rules.settle = [this](std::string_view, Environment& environment,
                          const EnvironmentUse&) -> Status {
      environment.recipe.platform = "linux-test";
      environment.recipe.image_digest = image_digest;
      return {};
    };
    rules.rebuild = [this](std::string_view, const std::string& hash) {
      const auto found = rebuilds.find(hash);
      return found == rebuilds.end() ? std::string() : found->second;
    };
    return resolve(*yard.store, "default", asked, {.role = role, .rerun_of = rerun_of}, rules);
  }
};

Environment named(std::string name, std::string version = {}) {
  Environment environment;
  environment.name = std::move(name);
  environment.version = std::move(version);
  return environment;
}

}  // namespace

TEST_CASE("what the machine has needs no hash") {
  const Registered home;
  CHECK(*home.resolved({}, Role::admin) == Environment{});
}

TEST_CASE("a recipe gets its platform and its hash") {
  const Registered home;
  Environment asked;
  asked.recipe.kind = EnvironmentKind::venv;
  asked.recipe.requirements = {"pandas"};
  const auto made = home.resolved(asked);
  REQUIRE(made);
  CHECK(made->recipe.platform == "linux-test");
  CHECK(made->hash == recipe_hash(made->recipe));
  asked.recipe.kind = EnvironmentKind::system;
  CHECK(home.resolved(asked)->hash == made->hash);
  asked.recipe.platform = "a lie";
  CHECK(home.resolved(asked)->recipe.platform == "linux-test");
}

TEST_CASE("a name becomes the recipe it stands for, with its version") {
  const Registered home;
  const auto made = home.resolved(named("mine"));
  REQUIRE(made);
  CHECK(made->name == "mine");
  CHECK(made->version == "1");
  CHECK(made->recipe.requirements == Words{"numpy"});
  CHECK(made->variables.at("A") == "1");
  CHECK(!made->hash.empty());
  CHECK(home.resolved(named("mine", "1"))->hash == made->hash);
  CHECK(kind_of(home.resolved(named("nowhere"))) == ErrorKind::not_found);
  CHECK(home.resolved(named("sklearn"))->recipe.kind == EnvironmentKind::venv);
}

TEST_CASE("a name may have its version in it") {
  const Registered home;
  CHECK(home.resolved(named("mine:1"))->version == "1");
  CHECK(home.resolved(named("azureml:mine@latest"))->name == "mine");
  CHECK(home.resolved(named("mine", "latest"))->version == "1");
  CHECK(kind_of(home.resolved(named("mine:2"))) == ErrorKind::not_found);
  CHECK(kind_of(home.resolved(named("mine:"))) == ErrorKind::invalid);
}

TEST_CASE("an image's file that has changed is another environment, but not for a rerun") {
  Registered home;
  RunSpec spec = Yard::spec();
  spec.environment.recipe.image = "rootfs:/x.tar";
  const Environment kept = home.yard.submit("r1", spec).spec.environment;
  home.image_digest = "sha256:1";
  const auto before = home.resolved(spec.environment);
  REQUIRE(before);
  CHECK(before->recipe.image_digest == "sha256:1");
  home.image_digest = "sha256:2";
  CHECK(home.resolved(spec.environment)->hash != before->hash);
  CHECK(home.resolved(kept, Role::submitter, "r1")->recipe.image_digest ==
        kept.recipe.image_digest);
  // No run has had it: it is a client's own idea.
  Environment lie = kept;
  lie.recipe.image_digest = "sha256:1";
  CHECK(home.resolved(lie, Role::submitter, "r1")->recipe.image_digest == "sha256:2");
  CHECK(home.resolved(*before)->recipe.image_digest == "sha256:2");
}

TEST_CASE("a rebuild takes the place of an environment, but not for a rerun of an earlier run") {
  Registered home;
  const Environment first = *home.resolved(named("mine"));
  home.rebuilds[first.hash] = "r1";
  const Environment second = *home.resolved(named("mine"));
  CHECK(second.recipe.rebuild == "r1");
  CHECK(second.hash != first.hash);
  CHECK(second.hash == recipe_hash(second.recipe));
  home.rebuilds[first.hash] = "r2";  // By the hash without a rebuild, each time.
  CHECK(home.resolved(named("mine"))->recipe.rebuild == "r2");
  CHECK(home.resolved(second)->recipe.rebuild == "r2");  // A client's own idea is no rebuild.
}

TEST_CASE("no text of a recipe smuggles in a second line") {
  const Registered home;
  const auto refused = [&](const std::function<void(Environment&)>& change) {
    Environment asked;
    asked.recipe.kind = EnvironmentKind::venv;
    asked.recipe.requirements = {"apple"};
    change(asked);
    const auto made = home.resolved(asked, Role::admin);
    return !made && made.error().kind == ErrorKind::invalid;
  };
  CHECK_FALSE(refused([](Environment&) {}));
  CHECK(refused([](Environment& e) { e.recipe.requirements = {"apple ; x\r-e /x"}; }));
  CHECK(refused([](Environment& e) { e.recipe.options = {"--pre\r-e /x"}; }));
  CHECK(refused([](Environment& e) { e.recipe.channels = {"a\nb"}; }));
  CHECK(refused([](Environment& e) { e.recipe.conda = {"a\x0b"}; }));
  CHECK(refused([](Environment& e) { e.recipe.python = "3.11\n"; }));
  CHECK(refused([](Environment& e) { e.lock = {"apple==1\r-e /x"}; }));
}

TEST_CASE("packages asked for beside a name are put upon it") {
  const Registered home;
  Environment asked = named("mine");
  asked.recipe.requirements = {"tqdm"};
  asked.arguments = {"--ipc", "host"};
  const auto made = home.resolved(asked, Role::admin);
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->recipe.requirements == Words{"numpy", "tqdm"});
  CHECK(made->arguments == Words{"--ipc", "host"});
  CHECK(made->hash != home.resolved(named("mine"))->hash);
}

TEST_CASE("a rerun keeps what its name stood for, and no client decides that for itself") {
  Registered home;
  RunSpec spec = Yard::spec();
  spec.environment = named("mine");
  spec.environment.recipe.requirements = {"tqdm"};
  const Environment before = home.yard.submit("r1", spec).spec.environment;
  EnvironmentRecord other;
  other.environment.name = "mine";
  other.environment.recipe.kind = EnvironmentKind::venv;
  other.environment.recipe.requirements = {"other"};
  home.put(other);
  const auto again = home.resolved(before, Role::submitter, "r1");
  REQUIRE(again);
  CHECK(again->version == "1");
  CHECK(again->recipe.requirements == Words{"numpy", "tqdm"});
  // Under a name that others trust, with packages that it does not have.
  Environment lie = before;
  lie.version = "2";
  lie.recipe.requirements = {"evil"};
  for (const char* run : {"r1", "no-such-run", ""}) {
    CAPTURE(run);
    const auto made = home.resolved(lie, Role::submitter, run);
    REQUIRE(made);
    CHECK(made->hash != lie.hash);
    CHECK(made->recipe.requirements == Words{"other", "evil"});
  }
}

TEST_CASE("a container has one of image and Dockerfile") {
  const Registered home;
  Environment asked;
  asked.recipe.kind = EnvironmentKind::container;
  CHECK(kind_of(home.resolved(asked)) == ErrorKind::invalid);
  asked.recipe.image = "debian";
  CHECK(home.resolved(asked));
  asked.recipe.dockerfile = "FROM debian";
  CHECK(kind_of(home.resolved(asked)) == ErrorKind::invalid);
}

TEST_CASE("a registry's password must be there as a secret") {
  const Registered home;
  Environment asked;
  asked.recipe.kind = EnvironmentKind::container;
  asked.recipe.image = "r.example/i";
  asked.registry = {"r.example", "ada", "registry-r.example-ada"};
  CHECK(kind_of(home.resolved(asked)) == ErrorKind::not_found);
  REQUIRE(home.yard.store->write(Durable::no, [&](db::Transaction& t) {
    return store::set_secret(t, 1, "registry-r.example-ada", "sealed", "ada", {});
  }));
  CHECK(home.resolved(asked));
}

TEST_CASE("a run keeps the environment that its name stood for, and a retry is the same run") {
  Registered home;
  RunSpec spec = Yard::spec();
  spec.environment = named("mine");
  const Run first = home.yard.submit("r1", spec);
  CHECK(first.spec.environment.version == "1");
  CHECK(home.yard.run("r1").spec.environment.hash == first.spec.environment.hash);
  EnvironmentRecord other;
  other.environment.name = "mine";
  other.environment.recipe.kind = EnvironmentKind::venv;
  home.put(other);
  const auto again = home.yard.control->submit({RunId{"r1"}, spec, "ada"});
  REQUIRE(again);
  CHECK(!again->created);
  CHECK(again->run.spec.environment.version == "1");
  CHECK(home.yard.submit("r2", spec).spec.environment.version == "2");
}

TEST_CASE("only an image has a command of its own") {
  Registered home;
  RunSpec spec = Yard::spec();
  spec.command.clear();
  CHECK(kind_of(home.yard.control->submit({RunId{"r1"}, spec, "ada"})) == ErrorKind::invalid);
  spec.environment = named("mine");
  const auto refused = home.yard.control->submit({RunId{"r1"}, spec, "ada"});
  REQUIRE(!refused);
  CHECK(refused.error().message.find("mine:1") != std::string::npos);
  spec.environment = {};
  spec.environment.recipe.kind = EnvironmentKind::container;
  spec.environment.recipe.image = "debian";
  CHECK(home.yard.submit("r1", spec).spec.command.empty());
}

TEST_CASE("the folder an image is built from must be here whole") {
  Registered home;
  RunSpec spec = Yard::spec();
  spec.environment.recipe.kind = EnvironmentKind::container;
  spec.environment.recipe.dockerfile = "Dockerfile";
  spec.environment.recipe.context = "missing";
  const auto refused = home.yard.control->submit({RunId{"r1"}, spec, "ada"});
  CHECK(kind_of(refused) == ErrorKind::not_found);
  CHECK(refused.error().message.starts_with("snapshot"));
  spec.environment.recipe.context = "there";
  home.yard.submit("r1", spec);
}

TEST_CASE("an environment is checked by the rights of who asks, before a file is read") {
  Registered home;
  Environment asked;
  asked.recipe.kind = EnvironmentKind::container;
  asked.recipe.image = "rootfs:/x.tar";
  asked.host_paths = {"/"};  // Set by the server alone.
  CHECK(home.resolved(asked)->host_paths == std::vector<std::string>{"/data"});
  CHECK(home.resolved(asked, Role::admin)->host_paths.empty());
  asked.arguments = {"-v", "/:/host"};
  CHECK(kind_of(home.resolved(asked)) == ErrorKind::denied);
  CHECK(home.resolved(asked, Role::admin));
}

TEST_CASE("nobody gains power by the role of those who use an environment of their name") {
  Registered home;
  REQUIRE(home.yard.store->create_user("bob", Role::submitter));
  REQUIRE(home.yard.store->create_user("eve", Role::admin));
  EnvironmentRecord record;
  record.environment.name = "mount";
  record.environment.recipe.kind = EnvironmentKind::container;
  record.environment.recipe.image = "debian";
  record.environment.arguments = {"-v", "/:/host"};
  record.created_by = "bob";
  home.put(record);
  const auto refused = home.resolved(named("mount"), Role::admin);
  CHECK(kind_of(refused) == ErrorKind::denied);
  CHECK(refused.error().message.find("bob") != std::string::npos);
  record.environment.name = "mount-2";
  record.created_by = "eve";
  home.put(record);
  CHECK(home.resolved(named("mount-2"), Role::admin));
  CHECK(kind_of(home.resolved(named("mount-2"))) == ErrorKind::denied);
  record.environment.name = "mount-3";
  record.created_by = "nobody-any-more";
  home.put(record);
  CHECK(kind_of(home.resolved(named("mount-3"), Role::admin)) == ErrorKind::denied);
}
