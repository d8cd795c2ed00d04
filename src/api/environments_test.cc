#include "api/environments.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>

#include "base/file.h"
#include "base/hash.h"

namespace trainyard::api {
namespace {

using Is = Environments::Stand::Is;

// A shelf in a folder of its own, and builds that wait for a word.
struct EnvironmentsYard {
  EnvironmentsYard() {
    environments = std::make_unique<Environments>(Environments::Parts{
        .clock = clock,
        .log = *log,
        .folder = folder.path() / "environments",
        .blobs = *blobs,
        .settings = {},
        .bytes_max = 0,
        .secret = {},
        .build =
            [this](const Environment& environment, const fs::path& made,
                   const env::Settings& settings, env::Watcher& watcher) {
              refused = settings.refusal.has_value();
              return build(environment, made, watcher);
            },
        .sandbox = [] { return fail(ErrorKind::unavailable, "no bubblewrap", "Install it."); },
        .trusts = [](const std::string& user) { return user == "root"; },
        .build_elsewhere = [this](const Environments::Wanted& of,
                                  env::Watcher& watcher) { return elsewhere(of, watcher); },
        .changed = {}});
  }
  ~EnvironmentsYard() { environments.reset(); }

  Result<Realised> build(const Environment& environment, const fs::path& made,
                         env::Watcher& watcher) {
    ++builds;
    watcher.line("begins");
    watcher.progress("1 of 2 packages");
    while (!go && !watcher.stopped()) poll(nullptr, 0, 1);
    if (watcher.stopped()) return fail(ErrorKind::cancelled, "stopped");
    if (fails) return fail(ErrorKind::invalid, "no such package: pear");
    TRY(make_dirs(made / "root" / "bin"));
    TRY(write_file(made / "root" / "bin" / "tool", "#!/bin/sh\n", 0755));
    Realised realised;
    realised.kind = environment.recipe.kind;
    realised.lock = {"pear==2.5"};
    return realised;
  }

  // As another machine would have built it: its files are blobs.
  Result<std::optional<Environments::Made>> elsewhere(const Environments::Wanted& of,
                                                      env::Watcher& watcher) {
    if (!named) return std::optional<Environments::Made>();
    ++built_elsewhere;
    watcher.line("built by run run-1");
    if (fails) return fail(ErrorKind::invalid, "no such package: pear");
    const std::string tool = "#!/bin/sh\n";
    TRY(blobs->put(sha256(tool), tool));
    Environments::Made made;
    made.tree.entries = {
        {.kind = snapshot::EntryKind::symlink, .path = "bin/python", .target = "/x"},
        {.kind = snapshot::EntryKind::executable,
         .path = "bin/tool",
         .size = tool.size(),
         .digest = sha256(tool)}};
    const std::string text = snapshot::encode(made.tree);
    TRY(blobs->put(sha256(text), text));
    made.realised.kind = of.environment.recipe.kind;
    made.realised.hash = of.environment.hash;
    made.realised.lock = {"pear==2.5"};
    made.realised.tree = sha256(text).hex();
    return std::optional<Environments::Made>(std::move(made));
  }

  Environments::Wanted wanted(Environments::Need need = Environments::Need::made) {
    Environments::Wanted made{.environment = {}, .workspace = "default", .need = need};
    made.environment.recipe.kind = EnvironmentKind::venv;
    made.environment.recipe.requirements = {"pear"};
    made.environment.hash = recipe_hash(made.environment.recipe);
    return made;
  }
  Environments::Stand look(const Environments::Wanted& of) {
    Result<Environments::Stand> stand = environments->stand(of);
    REQUIRE(stand);
    return *std::move(stand);
  }
  Environments::Stand await(Environments::Wanted of, Is is) {
    for (int i = 0; i < 3000; ++i) {
      const Environments::Stand stand = look(of);
      if (stand.is == is) return stand;
      of.begins = false;
      poll(nullptr, 0, 10);
    }
    FAIL("waited in vain");
    return {};
  }

  TempDir folder;
  MonotoneClock clock;
  std::unique_ptr<Log> log = open_file_log(clock, {.path = folder.path() / "log"});
  std::unique_ptr<blob::Store> blobs =
      *blob::open_folder(folder.path() / "blobs", folder.path() / "tmp");
  std::atomic<int> builds{0};
  std::atomic<bool> go{false};
  std::atomic<bool> fails{false};
  std::atomic<bool> refused{false};  // Code of packages, in the last build.
  std::atomic<bool> named{false};    // Another machine is to build.
  std::atomic<int> built_elsewhere{0};
  std::unique_ptr<Environments> environments;
};

TEST_CASE("an environment is made once for all who ask, and found after that") {
  EnvironmentsYard yard;
  CHECK(yard.look(yard.wanted()).is == Is::building);
  for (int i = 0; i < 20; ++i) CHECK(yard.look(yard.wanted()).is == Is::building);
  yard.go = true;
  const Environments::Stand made = yard.await(yard.wanted(), Is::ready);
  CHECK(made.realised.lock == std::vector<std::string>{"pear==2.5"});
  CHECK(made.log.find("begins\n") != std::string::npos);
  Environments::Wanted next = yard.wanted();
  next.begins = true;
  const Environments::Stand found = yard.look(next);
  CHECK(found.is == Is::ready);
  CHECK(found.log.empty());
  CHECK(yard.builds == 1);
}

TEST_CASE("without a sandbox code of packages runs for admins alone") {
  EnvironmentsYard yard;
  yard.go = true;
  Environments::Wanted wanted = yard.wanted();
  wanted.user = "sam";
  yard.await(wanted, Is::ready);
  CHECK(yard.refused);
  wanted.user = "root";
  wanted.environment.recipe.requirements = {"apple"};
  wanted.environment.hash = recipe_hash(wanted.environment.recipe);
  const Environments::Stand made = yard.await(wanted, Is::ready);
  CHECK_FALSE(yard.refused);
  CHECK(made.log.find("There is no sandbox for builds (no bubblewrap)") != std::string::npos);
}

TEST_CASE("a run that waits is told how far it is") {
  EnvironmentsYard yard;
  CHECK(yard.environments->words(yard.wanted().environment).empty());
  yard.look(yard.wanted());
  for (int i = 0; i < 3000 && yard.builds == 0; ++i) poll(nullptr, 0, 1);
  const std::string hash = yard.wanted().environment.hash.substr(0, 6);
  for (int i = 0; i < 3000; ++i) {
    if (yard.environments->words(yard.wanted().environment).ends_with("packages")) break;
    poll(nullptr, 0, 1);
  }
  CHECK(yard.environments->words(yard.wanted().environment) ==
        "environment " + hash + " is being built: 1 of 2 packages");
  yard.go = true;
  yard.await(yard.wanted(), Is::ready);
  CHECK(yard.environments->words(yard.wanted().environment).empty());
}

TEST_CASE("a build is stopped when the last run that wants it is canceled") {
  EnvironmentsYard yard;
  Environments::Wanted run = yard.wanted();
  run.for_run = run.ahead = run.begins = true;
  CHECK(yard.look(run).is == Is::building);
  yard.environments->give_up(run.environment.hash);
  run.begins = false;
  CHECK(yard.await(run, Is::failed).error.kind == ErrorKind::cancelled);

  // One that comes meanwhile, or a person who waits, keeps it.
  run.begins = true;
  CHECK(yard.look(run).is == Is::building);
  CHECK(yard.look(yard.wanted()).is == Is::building);
  yard.environments->give_up(run.environment.hash);
  poll(nullptr, 0, 50);
  run.begins = false;
  CHECK(yard.look(run).is == Is::building);
  yard.go = true;
  yard.await(run, Is::ready);
  CHECK(yard.builds == 2);
}

TEST_CASE("what failed is told to who waited, and tried again for who comes") {
  EnvironmentsYard yard;
  yard.go = true;
  yard.fails = true;
  CHECK(yard.await(yard.wanted(), Is::failed).error.message == "no such package: pear");
  CHECK(yard.look(yard.wanted()).is == Is::failed);
  CHECK(yard.builds == 1);
  yard.fails = false;
  Environments::Wanted next = yard.wanted();
  next.begins = true;
  yard.await(next, Is::ready);
  CHECK(yard.builds == 2);
}

TEST_CASE("a node elsewhere gets it as a tree of blobs") {
  EnvironmentsYard yard;
  yard.go = true;
  const Environments::Stand made = yard.await(yard.wanted(Environments::Need::tree), Is::ready);
  REQUIRE(made.realised.tree.size() == 64);
  CHECK(yard.blobs->has(*Digest::from_hex(made.realised.tree)));
  CHECK(yard.builds == 1);
  // And the machine itself has it too.
  CHECK(yard.look(yard.wanted()).is == Is::ready);
}

TEST_CASE("what another machine has built is on the shelf as if it had been made here") {
  EnvironmentsYard yard;
  yard.named = true;
  yard.fails = true;
  CHECK(yard.await(yard.wanted(Environments::Need::tree), Is::failed).error.message ==
        "no such package: pear");
  yard.fails = false;
  Environments::Wanted wanted = yard.wanted(Environments::Need::tree);
  wanted.begins = true;
  const Environments::Stand made = yard.await(wanted, Is::ready);
  CHECK(made.log.find("built by run run-1\n") != std::string::npos);
  const fs::path root =
      yard.folder.path() / "environments" / wanted.environment.hash / "root" / "bin";
  CHECK(fs::read_symlink(root / "python") == "/x");
  CHECK(access((root / "tool").c_str(), X_OK) == 0);
  // For runs here too; and nothing was built here.
  const Environments::Stand here = yard.look(yard.wanted());
  CHECK(here.is == Is::ready);
  CHECK(here.realised.tree == made.realised.tree);
  CHECK(yard.environments->is_packed(wanted.environment));
  CHECK(yard.builds == 0);
  CHECK(yard.built_elsewhere == 2);
}

TEST_CASE("what is here already is not built elsewhere, and what is for here is built here") {
  EnvironmentsYard yard;
  yard.named = true;
  yard.go = true;
  yard.await(yard.wanted(), Is::ready);
  const Environments::Stand packed = yard.await(yard.wanted(Environments::Need::tree), Is::ready);
  CHECK(packed.realised.tree.size() == 64);
  CHECK(yard.builds == 1);
  CHECK(yard.built_elsewhere == 0);
}

TEST_CASE("the end of the server ends what is being made, and leaves nothing half-made") {
  EnvironmentsYard yard;
  yard.look(yard.wanted());
  for (int i = 0; i < 3000 && yard.builds == 0; ++i) poll(nullptr, 0, 1);
  yard.environments.reset();
  for (const auto& entry : fs::directory_iterator(yard.folder.path() / "environments")) {
    CHECK_FALSE(entry.is_directory());
  }
}

}  // namespace
}  // namespace trainyard::api
