#include "store/store.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/fake_clock.h"
#include "base/hash.h"
#include "store/history.h"
#include "store/people.h"
#include "store/run_rows.h"

using namespace trainyard;
using store::Store;

namespace {

struct StoreHome {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<Store> store = open();

  std::unique_ptr<Store> open() {
    auto opened = Store::open(dir.path() / "trainyard.db", clock);
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message));
    return *std::move(opened);
  }
  RunId add(std::string id, RunSpec spec = store::plain_spec()) {
    const Status added = store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY(store::add_queued_run(t, RunId{id}, spec, clock.wall()));
      return {};
    });
    REQUIRE(added);
    return RunId{id};
  }
  void finish(const RunId& id, RunStatus status) {
    const Status done = store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY_SET(store::RunHead head, store::run_head(t.db(), id));
      head.life.status = status;
      head.ended = clock.wall();
      return store::save_run(t, head);
    });
    REQUIRE(done);
  }
};

ErrorKind kind_of(const auto& result) {
  REQUIRE(!result);
  return result.error().kind;
}

std::vector<std::string> ids(const Result<std::vector<Run>>& runs) {
  REQUIRE(runs);
  std::vector<std::string> ids;
  for (const Run& run : *runs) ids.push_back(run.id.value);
  return ids;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("a new home has a workspace and its admin") {
  StoreHome home;
  const auto workspaces = home.store->workspaces();
  REQUIRE(workspaces);
  REQUIRE(workspaces->size() == 1);
  CHECK(workspaces->front().name == "default");
  const auto users = home.store->users();
  REQUIRE(users);
  REQUIRE(users->size() == 1);
  CHECK(users->front().name == store::system_user());
  CHECK(users->front().role == Role::admin);
  CHECK(home.store->check());
}

TEST_CASE("what was written is there after a reopening") {
  StoreHome home;
  const RunId id = home.add("calm-finch-1");
  home.store.reset();
  home.store = home.open();
  const auto run = home.store->run(id);
  REQUIRE(run);
  CHECK(run->spec == store::plain_spec());
  CHECK(run->life.status == RunStatus::queued);
  REQUIRE(run->events.size() == 2);
  CHECK(run->events[1].seq == 2);
  CHECK(run->events[1].kind == "queued");
  CHECK(home.store->users()->size() == 1);
}

TEST_CASE("a run is found by the beginning of its id") {
  StoreHome home;
  home.add("calm-finch-1");
  home.add("calm-finch-12");
  home.add("bold-heron-3");
  CHECK(home.store->find_run("bold")->value == "bold-heron-3");
  CHECK(home.store->find_run("calm-finch-1")->value == "calm-finch-1");
  CHECK(kind_of(home.store->find_run("calm")) == ErrorKind::conflict);
  CHECK(kind_of(home.store->find_run("odd")) == ErrorKind::not_found);
  CHECK(kind_of(home.store->find_run("")) == ErrorKind::invalid);
  CHECK(kind_of(home.store->find_run("%")) == ErrorKind::not_found);
  CHECK(kind_of(home.store->run(RunId{"odd"})) == ErrorKind::not_found);
}

TEST_CASE("lists are newest first, filtered and paged") {
  StoreHome home;
  for (int i = 1; i <= 5; ++i) home.add("run-" + std::to_string(i));
  RunSpec other = store::plain_spec();
  other.experiment = "other";
  home.add("run-6", other);
  home.finish(RunId{"run-2"}, RunStatus::completed);
  home.finish(RunId{"run-4"}, RunStatus::failed);
  Store& store = *home.store;
  CHECK(ids(store.runs({})) == Ids{"run-6", "run-5", "run-4", "run-3", "run-2", "run-1"});
  CHECK(ids(store.runs({.workspace = "default", .limit = 2})) == Ids{"run-6", "run-5"});
  CHECK(ids(store.runs({.limit = 2, .before = 5})) == Ids{"run-4", "run-3"});
  CHECK(ids(store.runs({.workspace = "default", .experiment = "other"})) == Ids{"run-6"});
  CHECK(ids(store.runs({.experiment = "history", .status = "Completed"})) == Ids{"run-2"});
  CHECK(ids(store.runs({.status = "Queued"})) == Ids{"run-6", "run-5", "run-3", "run-1"});
  CHECK(ids(store.runs({.workspace = "default", .status = "Failed"})) == Ids{"run-4"});
  CHECK(ids(store.runs({.target = "nowhere"})).empty());
  CHECK(ids(store.runs({.experiment = "unknown"})).empty());
  CHECK(kind_of(store.runs({.workspace = "unknown"})) == ErrorKind::not_found);
  CHECK(kind_of(store.runs({.status = "Queue"})) == ErrorKind::invalid);
  CHECK(store.count_runs(RunStatus::queued) == 4);
  CHECK(store.count_runs(RunStatus::failed) == 1);
  const auto experiments = store.experiments("default");
  REQUIRE(experiments);
  REQUIRE(experiments->size() == 2);
  CHECK(experiments->front().name == "other");
  CHECK(experiments->back().run_count == 5);
}

TEST_CASE("no query of the hot path reads the history") {
  StoreHome home;
  home.add("run-1");
  const std::string_view queries[] = {
      "SELECT id FROM runs WHERE id >= 'a' AND id < 'b' ORDER BY id LIMIT 4",
      "SELECT id FROM runs WHERE final = 0 AND status = 'Queued' AND queue = 'local' AND held = '' "
      "ORDER BY priority DESC, number LIMIT 9",
      "SELECT COUNT(*) FROM runs WHERE final = 0 AND status = 'Queued' AND queue = 'local' AND "
      "held = '' AND priority > 1",
      "SELECT COUNT(*) FROM runs WHERE final = 0 AND status = 'Queued' AND queue = 'local' AND "
      "held = '' AND priority = 1 AND number < 9",
      "SELECT id, held FROM runs WHERE held <> '' ORDER BY held, number",
      "SELECT id FROM runs WHERE parent = 9 AND outcome = '' AND interactive = 1",
      "SELECT name FROM metrics WHERE run = 9",
      "SELECT value FROM points WHERE metric = 9 AND number >= 9 ORDER BY number LIMIT 9",
      "SELECT MAX(ended) FROM runs WHERE final = 1",
      "SELECT id FROM tokens WHERE hash = 'x'",
      "DELETE FROM tokens WHERE run = 9 AND attempt = 9",
      "SELECT run FROM attempts WHERE released = 0 AND ended IS NOT NULL",
  };
  const Status looked = home.store->read([&](db::Db& db) -> Status {
    for (const std::string_view query : queries) {
      TRY_SET(db::Statement plan, db.query("EXPLAIN QUERY PLAN " + std::string(query)));
      while (plan.next().value_or(false)) {
        const std::string step = plan.text(3);
        CAPTURE(query);
        CAPTURE(step);
        // A partial index walked from its end is no scan of the table.
        const bool partial =
            step.find("attempts_unreleased") != step.npos || step.find("runs_held") != step.npos;
        CHECK((step.starts_with("SEARCH") || partial));
        CHECK(step.find("TEMP B-TREE") == std::string::npos);
      }
    }
    return {};
  });
  CHECK(looked);
}

TEST_CASE("a token's secret is shown once and only its hash is kept") {
  StoreHome home;
  REQUIRE(home.store->create_user("grace", Role::submitter));
  CHECK(kind_of(home.store->create_user("grace", Role::admin)) == ErrorKind::conflict);
  CHECK(kind_of(home.store->create_user("../x", Role::admin)) == ErrorKind::invalid);
  const auto made = home.store->create_token("grace", "laptop", std::nullopt);
  REQUIRE(made);
  CHECK(made->secret.starts_with("tyu_"));
  const auto who = home.store->identify(made->secret);
  REQUIRE(who);
  CHECK(who->user == "grace");
  CHECK(who->role == Role::submitter);
  CHECK(!who->attempt);
  const auto listed = home.store->tokens();
  REQUIRE(listed);
  REQUIRE(listed->size() == 1);
  CHECK(listed->front().label == "laptop");
  CHECK(kind_of(home.store->identify("tyu_unknown")) == ErrorKind::denied);
  CHECK(kind_of(home.store->create_token("nobody", "", std::nullopt)) == ErrorKind::not_found);
  home.store.reset();
  for (const char* suffix : {"", "-wal"}) {
    const auto bytes = read_file(home.dir.path() / ("trainyard.db" + std::string(suffix)));
    if (bytes) CHECK(bytes->find(made->secret) == std::string::npos);
  }
}

TEST_CASE("a token ends by revoking, by its time and with its user") {
  StoreHome home;
  Store& store = *home.store;
  REQUIRE(store.create_user("grace", Role::reader));
  const auto revoked = store.create_token("grace", "", std::nullopt);
  const auto expiring = store.create_token("grace", "", home.clock.wall() + seconds(60));
  const auto orphan = store.create_token("grace", "", std::nullopt);
  REQUIRE(store.revoke_token(revoked->token.id));
  CHECK(kind_of(store.identify(revoked->secret)) == ErrorKind::denied);
  CHECK(kind_of(store.revoke_token(4711)) == ErrorKind::not_found);
  CHECK(store.identify(expiring->secret));
  home.clock.advance(seconds(60));
  CHECK(kind_of(store.identify(expiring->secret)) == ErrorKind::denied);
  CHECK(store.identify(orphan->secret));
  REQUIRE(store.delete_user("grace"));
  CHECK(kind_of(store.identify(orphan->secret)) == ErrorKind::denied);
  REQUIRE(store.create_user("grace", Role::admin));
  CHECK(kind_of(store.identify(orphan->secret)) == ErrorKind::denied);
  CHECK(kind_of(store.delete_user("nobody")) == ErrorKind::not_found);
  CHECK(kind_of(store.delete_user(store::system_user())) == ErrorKind::conflict);
}

TEST_CASE("an attempt's token is refused once a newer attempt exists") {
  StoreHome home;
  const RunId id = home.add("run-1");
  const auto place = [&](int attempt, std::string_view secret) {
    return home.store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY_SET(store::RunHead head, store::run_head(t.db(), id));
      head.life.attempt = attempt;
      TRY(store::insert_attempt(t, head.number, {.attempt = {.number = attempt}}));
      TRY(store::set_attempt_token(t, head, attempt, secret, home.clock.wall()));
      return store::save_run(t, head);
    });
  };
  REQUIRE(place(1, "tya_one"));
  const auto who = home.store->identify("tya_one");
  REQUIRE(who);
  CHECK(who->attempt == AttemptId{id, 1});
  CHECK(who->user == "ada");
  REQUIRE(place(2, "tya_two"));
  CHECK(kind_of(home.store->identify("tya_one")) == ErrorKind::conflict);
  CHECK(home.store->identify("tya_two"));
  home.finish(id, RunStatus::completed);
  CHECK(kind_of(home.store->identify("tya_two")) == ErrorKind::conflict);
  CHECK(home.store->tokens()->empty());
}

TEST_CASE("a workspace goes with its runs, and not while one is live") {
  StoreHome home;
  Store& store = *home.store;
  const auto made = store.create_workspace({.name = "lab", .created_by = "ada"});
  REQUIRE(made);
  CHECK(kind_of(store.create_workspace({.name = "lab"})) == ErrorKind::conflict);
  REQUIRE(store.write(Durable::no, [&](db::Transaction& t) -> Status {
    TRY(store::add_queued_run(t, RunId{"run-1"}, store::plain_spec(), home.clock.wall()));
    TRY(t.run("UPDATE experiments SET workspace_id = ?", {made->id}));
    TRY(t.run("UPDATE runs SET workspace_id = ?", {made->id}));
    return {};
  }));
  CHECK(kind_of(store.delete_workspace("lab")) == ErrorKind::conflict);
  home.finish(RunId{"run-1"}, RunStatus::canceled);
  REQUIRE(store.delete_workspace("lab"));
  CHECK(kind_of(store.run(RunId{"run-1"})) == ErrorKind::not_found);
  CHECK(kind_of(store.workspace("lab")) == ErrorKind::not_found);
  CHECK(kind_of(store.delete_workspace("default")) == ErrorKind::conflict);
  CHECK(store.check());
}

TEST_CASE("a run's files are numbered by arrival, each name once") {
  StoreHome home;
  const RunId id = home.add("run-1");
  CHECK(home.store->file(id, "logs/a.txt")->number == 1);
  CHECK(home.store->file(id, "logs/b.txt")->number == 2);
  CHECK(home.store->file(id, "logs/a.txt")->number == 1);
  const auto files = home.store->files(id);
  REQUIRE(files);
  REQUIRE(files->size() == 2);
  CHECK((*files)[1].path == "logs/b.txt");
  CHECK(kind_of(home.store->file(RunId{"odd"}, "x")) == ErrorKind::not_found);
}

TEST_CASE("the newest time on record is that of the last event or end") {
  StoreHome home;
  const WallTime start = home.clock.wall();
  CHECK(home.store->newest_time() == start);
  home.clock.advance(seconds(5));
  const RunId id = home.add("run-1");
  CHECK(home.store->newest_time() == start + seconds(5));
  home.clock.advance(seconds(5));
  home.add("run-2");
  home.clock.advance(seconds(5));
  home.finish(id, RunStatus::completed);
  CHECK(home.store->newest_time() == start + seconds(15));
  CHECK(Store::newest_time_of(home.dir.path() / "trainyard.db") == start + seconds(15));
  CHECK(Store::newest_time_of(home.dir.path() / "none.db") == WallTime{});
  CHECK(!fs::exists(home.dir.path() / "none.db"));
}

TEST_CASE("a backup taken under way opens as a home") {
  StoreHome home;
  home.add("run-1");
  const fs::path copy = home.dir.path() / "copy.db";
  REQUIRE(home.store->backup_to(copy));
  home.add("run-2");
  const auto copied = Store::open(copy, home.clock);
  REQUIRE(copied);
  CHECK(ids((*copied)->runs({})) == Ids{"run-1"});
  CHECK((*copied)->check());
}

TEST_CASE("a token takes those it made along, and hands its limits on") {
  StoreHome home;
  Store& store = *home.store;
  REQUIRE(store.create_user("grace", Role::admin));
  REQUIRE(store.create_user("sam", Role::submitter));
  const auto first = store.create_token("grace", "", std::nullopt);
  const auto child = store.create_token("sam", "", std::nullopt, {.parent = first->token.id});
  const auto grandchild = store.create_token("sam", "", std::nullopt,
                                             {.parent = child->token.id, .role = Role::reader});
  const auto other = store.create_token("sam", "", std::nullopt);
  CHECK(store.identify(grandchild->secret)->role == Role::reader);
  CHECK(store.identify(grandchild->secret)->role_limit == Role::reader);
  CHECK(store.identify(child->secret)->role == Role::submitter);
  REQUIRE(store.revoke_token(first->token.id));
  for (const auto* token : {&first, &child, &grandchild}) {
    CHECK(kind_of(store.identify((*token)->secret)) == ErrorKind::denied);
  }
  CHECK(store.identify(other->secret));
}

TEST_CASE("an admin who is none any more leaves no tokens for others behind") {
  StoreHome home;
  Store& store = *home.store;
  REQUIRE(store.create_user("grace", Role::admin));
  REQUIRE(store.create_user("sam", Role::submitter));
  const auto own = store.create_token("grace", "", std::nullopt);
  const auto second = store.create_token("grace", "", std::nullopt, {.parent = own->token.id});
  const auto for_sam = store.create_token("sam", "", std::nullopt, {.parent = own->token.id});
  REQUIRE(store.write(Durable::no, [&](db::Transaction& t) {
    return store::set_role(t, "grace", Role::submitter, home.clock.wall());
  }));
  CHECK(store.identify(own->secret)->role == Role::submitter);
  CHECK(store.identify(second->secret)->role == Role::submitter);
  CHECK(kind_of(store.identify(for_sam->secret)) == ErrorKind::denied);
}

TEST_CASE("tokens that are long dead are swept away") {
  StoreHome home;
  Store& store = *home.store;
  REQUIRE(store.create_user("grace", Role::admin));
  REQUIRE(store.create_token("grace", "expires", home.clock.wall() + seconds(60)));
  const auto revoked = store.create_token("grace", "revoked", std::nullopt);
  REQUIRE(store.create_token("grace", "stays", std::nullopt));
  REQUIRE(store.revoke_token(revoked->token.id));
  home.clock.advance(seconds(29 * 24 * 3600));
  REQUIRE(store.create_token("grace", "next", std::nullopt));
  CHECK(store.tokens()->size() == 4);
  home.clock.advance(seconds(2 * 24 * 3600));
  REQUIRE(store.create_token("grace", "last", std::nullopt));
  CHECK(store.tokens()->size() == 3);
}
