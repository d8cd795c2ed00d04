#include "store/migrate.h"

#include <doctest/doctest.h>

#include "base/fake_clock.h"
#include "store/store.h"

using namespace trainyard;
using store::Migration;

namespace {

std::unique_ptr<db::Db> opened(const fs::path& folder) {
  auto db = db::Db::open(folder / "trainyard.db", {});
  REQUIRE(db);
  return *std::move(db);
}

}  // namespace

TEST_CASE("the steps count up by one from the first") {
  int expected = 1;
  for (const Migration& step : store::migrations()) {
    CHECK(step.version == expected++);
    CHECK(!step.sql.empty());
  }
}

TEST_CASE("an older home is brought up to date and keeps what it has") {
  TempDir dir;
  const auto db = opened(dir.path());
  const Migration first[] = {{1, "CREATE TABLE t (a); INSERT INTO t VALUES (7)"}};
  REQUIRE(store::migrate(*db, first));
  const Migration both[] = {first[0], {2, "ALTER TABLE t ADD COLUMN b DEFAULT 8"}};
  REQUIRE(store::migrate(*db, both));
  REQUIRE(store::migrate(*db, both));
  CHECK(db->version() == 2);
  auto row = db->query("SELECT a, b FROM t");
  REQUIRE(row);
  REQUIRE(row->next().value_or(false));
  CHECK(row->integer(0) == 7);
  CHECK(row->integer(1) == 8);
}

TEST_CASE("a step that fails half-way leaves the version before it whole") {
  TempDir dir;
  const auto db = opened(dir.path());
  const Migration steps[] = {{1, "CREATE TABLE t (a)"},
                             {2, "CREATE TABLE u (a); INSERT INTO nowhere VALUES (1)"}};
  const Status migrated = store::migrate(*db, steps);
  REQUIRE(!migrated);
  CHECK(migrated.error().message.find("version 2") != std::string::npos);
  CHECK(db->version() == 1);
  CHECK(db->query("SELECT * FROM t"));
  CHECK(!db->query("SELECT * FROM u"));
}

TEST_CASE("a newer home is refused, and both versions are named") {
  TempDir dir;
  FakeClock clock;
  const int known = store::migrations().back().version;
  REQUIRE(opened(dir.path())->set_version(known + 41));
  const auto store = store::Store::open(dir.path() / "trainyard.db", clock);
  REQUIRE(!store);
  CHECK(store.error().kind == ErrorKind::conflict);
  CHECK(store.error().message.find(std::to_string(known + 41)) != std::string::npos);
  CHECK(store.error().message.find("up to " + std::to_string(known)) != std::string::npos);
}

TEST_CASE("a home of the first version opens with this program") {
  TempDir dir;
  FakeClock clock;
  {
    const auto db = opened(dir.path());
    REQUIRE(store::migrate(*db, store::migrations().first(1)));
    REQUIRE(db->script("INSERT INTO users (name, role, created) VALUES ('ada', 'reader', 1)"));
  }
  const auto store = store::Store::open(dir.path() / "trainyard.db", clock);
  REQUIRE(store);
  const auto users = (*store)->users();
  REQUIRE(users);
  CHECK(users->size() == 2);
}

TEST_CASE("the runs of an older home are found by tag, outcome and user, and counted") {
  TempDir dir;
  FakeClock clock;
  {
    const auto db = opened(dir.path());
    REQUIRE(store::migrate(*db, store::migrations().first(8)));
    REQUIRE(db->script(
        "INSERT INTO workspaces (id, name, subscription_id, resource_group, created_by, created) "
        "VALUES (1, 'default', '', '', 'ada', 1);"
        "INSERT INTO experiments (id, workspace_id, name, created) VALUES (1, 1, 'old', 1);"
        "INSERT INTO runs (id, version, workspace_id, experiment_id, user_name, target, cpus, "
        "memory_bytes, status, final, attempt, lost_early, cancel_asked, error, event_seq, "
        "event_at, created, outputs, snapshot_files, snapshot_bytes, spec_hash) VALUES "
        "('a', 1, 1, 1, 'ada', 'local', 1, 0, 'Completed', 1, 1, 0, 0, '', 1, 1, 1, '', 0, 0, ''),"
        "('b', 1, 1, 1, 'bob', 'local', 1, 0, 'Queued', 0, 1, 0, 0, '', 1, 1, 1, '', 0, 0, '');"
        "INSERT INTO run_specs (run, spec) VALUES "
        "(1, '{\"command\":[\"true\"],\"tags\":{\"model\":\"m1\"}}'),"
        "(2, '{\"command\":[\"true\"],\"tags\":{\"model\":\"m1\"}}');"
        "INSERT INTO run_labels (run, display_name, description, tags, properties) VALUES "
        "(2, '', '', '{\"model\":\"m2\"}', '{}');"));
  }
  const auto store = store::Store::open(dir.path() / "trainyard.db", clock);
  REQUIRE_MESSAGE(store, (store ? "" : store.error().message));
  const auto only = [&](const store::RunFilter& filter) -> std::string {
    const auto runs = (*store)->runs(filter);
    REQUIRE(runs);
    return runs->size() == 1 ? runs->front().id.value : std::to_string(runs->size()) + " runs";
  };
  CHECK(only({.tags = {{"model", "m1"}}}) == "a");
  CHECK(only({.tags = {{"model", "m2"}}}) == "b");
  CHECK(only({.status = "Completed"}) == "a");
  CHECK(only({.user = "bob"}) == "b");
  CHECK((*store)->experiments("default")->front().run_count == 2);
  CHECK((*store)->check());
}
