#include "store/workspaces.h"

#include <doctest/doctest.h>

#include "base/fake_clock.h"
#include "store/computes.h"
#include "store/environments.h"
#include "store/store.h"

using namespace trainyard;

namespace {

struct WorkspacesHome {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<store::Store> store =
      store::Store::open(dir.path() / "trainyard.db", clock, {.sync = false}).value();

  Status set(const std::string& compute) {
    return store->write(Durable::no, [&](db::Transaction& transaction) {
      return store::set_build_compute(transaction, "default", compute);
    });
  }
  std::string named() { return store->workspace("default").value().image_build_compute; }
};

}  // namespace

TEST_CASE("environments of a workspace are built on a compute of its own, or on the server") {
  WorkspacesHome home;
  CHECK(home.named().empty());
  ComputeSpec spec;
  spec.name = "builders";
  spec.engine = "slurm";
  const Status made = home.store->write(Durable::no, [&](db::Transaction& t) -> Status {
    TRY(store::insert_compute(t, "default", spec, "ada", home.clock.wall()));
    return {};
  });
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  const Status unknown = home.set("bilders");
  REQUIRE(!unknown);
  CHECK(unknown.error().kind == ErrorKind::not_found);
  CHECK(unknown.error().hint.find("builders") != std::string::npos);
  REQUIRE(home.set("builders"));
  CHECK(home.named() == "builders");
  CHECK(home.store->workspaces()->front().image_build_compute == "builders");
  REQUIRE(home.set(""));
  CHECK(home.named().empty());
}

TEST_CASE("a new workspace may name a compute that it will have") {
  WorkspacesHome home;
  REQUIRE(home.store->create_workspace({.name = "vision", .image_build_compute = "builders"}));
  CHECK(home.store->workspace("vision")->image_build_compute == "builders");
}

TEST_CASE("the newest run that builds an environment is known by its hash") {
  WorkspacesHome home;
  const auto known = [&] {
    std::optional<RunId> found;
    REQUIRE(home.store->read([&](db::Db& db) -> Status {
      TRY_SET(found, store::build_run(db, "8f31c0"));
      return {};
    }));
    return found;
  };
  CHECK(!known());
  for (const char* id : {"run-1", "run-2"}) {
    REQUIRE(home.store->write(Durable::no, [&](db::Transaction& t) {
      return store::set_build_run(t, "8f31c0", RunId{id});
    }));
    CHECK(known() == RunId{id});
  }
}
