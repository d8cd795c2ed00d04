#include "store/deletion.h"

#include "api/collector.h"
#include "api/test_yard.h"
#include "store/environments.h"

// Deletion, restoration, and what collection does with both.
namespace trainyard::api {
namespace {

using enum http::Method;

struct Deleting : Yard {
  Deleting() : collector(*house, {.every = seconds(0)}) {}

  RunId over(const std::string& id, const std::string& experiment = "tests",
             const std::string& parent = {}, const std::string& workspace = "default") {
    RunSpec spec;
    spec.workspace = workspace;
    spec.experiment = experiment;
    spec.command = {"true"};
    spec.parent = parent;
    REQUIRE(control->submit({RunId{id}, spec, "owner"}).has_value());
    place(RunId{id});
    finish(RunId{id});
    return RunId{id};
  }
  void change(const std::string& sql) {
    REQUIRE(store->write(Durable::yes, [&](db::Transaction& transaction) -> Status {
      TRY(transaction.run(sql));
      return {};
    }));
  }
  int64_t count(const std::string& sql) {
    int64_t found = -1;
    REQUIRE(store->read([&](db::Db& db) -> Status {
      TRY_SET(db::Statement row, db.query("SELECT COUNT(*) FROM " + sql));
      TRY(row.next());
      found = row.integer(0);
      return {};
    }));
    return found;
  }
  // What is restored together is known by its time, and the clock may stand still between two
  // requests: as if all that is deleted had been deleted a second earlier.
  void let_a_second_pass() { change("UPDATE runs SET deleted = deleted - 1000000"); }
  // As if all that is deleted had been deleted eight days ago.
  void let_a_week_pass() { change("UPDATE runs SET deleted = deleted - 691200000000"); }
  Json listed(http::Client& client, const std::string& query = "") {
    Json ids = Json::array();
    const Json page = json_of(fetch(client, "/api/v1/runs" + query));
    for (const Json& run : page["items"]) ids.push_back(run["id"]);
    return ids;
  }

  Collector collector;
};

}  // namespace

TEST_CASE("a deleted run disappears at once, says how to restore it, and comes back whole") {
  Deleting yard;
  http::Client client = yard.over_socket();
  yard.over("calm-finch-1");
  yard.over("calm-finch-2");
  REQUIRE(fetch(client, "/api/v1/runs/calm-finch-1/follow").status == 200);  // Now it is known.
  const http::Response deleted = send(client, del, "/api/v1/runs/calm-finch-1");
  REQUIRE(deleted.status == 200);
  CHECK(json_of(deleted)["deleted"] == Json({"calm-finch-1"}));
  CHECK(json_of(deleted)["restorableUntil"].is_string());

  CHECK(yard.listed(client) == Json({"calm-finch-2"}));
  for (const char* rest : {"", "/spec", "/wait", "/follow", "/files", "/outputs", "/metrics"}) {
    CAPTURE(rest);
    const http::Response gone = fetch(client, "/api/v1/runs/calm-finch-1" + std::string(rest));
    CHECK(gone.status == 404);
    const std::string hint = json_of(gone)["error"]["hint"];
    CHECK(hint.find("trainyard run restore calm-finch-1") != std::string::npos);
  }
  CHECK(send(client, del, "/api/v1/runs/calm-finch-1").status == 404);
  // A beginning of its id names others.
  CHECK(json_of(fetch(client, "/api/v1/runs/calm-f"))["id"] == "calm-finch-2");
  CHECK(json_of(fetch(client, "/api/v1/workspaces/default/experiments"))["items"][0]["runCount"] ==
        1);

  CHECK(send(client, post, "/api/v1/runs/calm-finch-1/restore").status == 200);
  CHECK(send(client, post, "/api/v1/runs/calm-finch-1/restore").status == 200);
  CHECK(yard.listed(client).size() == 2);
  CHECK(send(client, post, "/api/v1/runs/calm-finch-9/restore").status == 404);
}

TEST_CASE("a run that is not over is not deleted, nor one above it") {
  Deleting yard;
  http::Client client = yard.over_socket();
  const RunId live = yard.submit("bold-otter-1");
  const http::Response refused = send(client, del, "/api/v1/runs/bold-otter-1");
  CHECK(refused.status == 409);
  CHECK(json_of(refused)["error"]["hint"].get<std::string>().find("run cancel bold-otter-1") !=
        std::string::npos);
  yard.change("UPDATE runs SET status = 'Completed', final = 1, ended = created");
  RunSpec spec;
  spec.experiment = "tests";
  spec.command = {"sleep", "1000"};
  spec.parent = "bold-otter-1";
  REQUIRE(yard.control->submit({RunId{"bold-otter-2"}, spec, "owner"}).has_value());
  const http::Response above = send(client, del, "/api/v1/runs/bold-otter-1");
  CHECK(above.status == 409);
  CHECK(above.body.find("bold-otter-2") != std::string::npos);
}

TEST_CASE("children go with their parent and come back with it; one deleted before does not") {
  Deleting yard;
  http::Client client = yard.over_socket();
  yard.over("calm-1");
  yard.over("calm-2", "tests", "calm-1");
  yard.over("calm-3", "tests", "calm-2");
  yard.over("calm-4", "tests", "calm-1");
  REQUIRE(send(client, del, "/api/v1/runs/calm-4").status == 200);
  yard.let_a_second_pass();
  CHECK(json_of(send(client, del, "/api/v1/runs/calm-1"))["deleted"].size() == 3);
  CHECK(yard.listed(client, "?children=1").empty());
  CHECK(send(client, post, "/api/v1/runs/calm-3/restore").status == 409);
  REQUIRE(send(client, post, "/api/v1/runs/calm-1/restore").status == 200);
  CHECK(yard.listed(client, "?children=1") == Json({"calm-3", "calm-2", "calm-1"}));
  CHECK(send(client, post, "/api/v1/runs/calm-4/restore").status == 200);

  REQUIRE(send(client, del, "/api/v1/runs/calm-1").status == 200);
  RunSpec child;
  child.experiment = "tests";
  child.command = {"true"};
  child.parent = "calm-1";
  CHECK(yard.control->submit({RunId{"late"}, child, "owner"}).error().kind == ErrorKind::not_found);
}

TEST_CASE("collection removes what was deleted a week ago, and nothing else") {
  Deleting yard;
  http::Client client = yard.over_socket();
  for (const char* id : {"old-1", "new-1", "kept-1"}) {
    const RunId run = yard.over(id);
    const logs::Piece piece[] = {{logs::Stream::out, "said\n"}};
    REQUIRE(yard.logs->append({run, 1}, 0, 0, piece).has_value());
  }
  yard.change(
      "INSERT INTO metrics (run, name, kind, points, last_at) SELECT number, 'loss', "
      "'scalar', 2500, 1 FROM runs WHERE id = 'old-1'");
  yard.change(
      "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2499) "
      "INSERT INTO points (metric, number, at, value) SELECT m.id, i, 1, 0.5 "
      "FROM n, metrics m");
  REQUIRE(send(client, del, "/api/v1/runs/old-1").status == 200);
  yard.let_a_week_pass();
  REQUIRE(send(client, del, "/api/v1/runs/new-1").status == 200);
  CHECK(yard.collector.collect(Collector::Mode::dry_run, {}).value()["removedRuns"] == 1);
  CHECK(yard.count("runs") == 3);
  CHECK(yard.collector.collect(Collector::Mode::remove, {}).value()["removedRuns"] == 1);
  CHECK(yard.count("runs") == 2);
  CHECK(yard.count("points") == 0);
  CHECK(!fs::exists(yard.home.run(RunId{"old-1"})));
  CHECK(fs::exists(yard.home.run(RunId{"new-1"})));
  CHECK(send(client, post, "/api/v1/runs/old-1/restore").status == 404);
  CHECK(send(client, post, "/api/v1/runs/new-1/restore").status == 200);
  CHECK(yard.count("run_specs") == 2);
}

TEST_CASE("what is deleted now is gone for good") {
  Deleting yard;
  yard.house->collector = &yard.collector;
  http::Client client = yard.over_socket();
  yard.over("calm-finch-5");
  const Json answer = json_of(send(client, del, "/api/v1/runs/calm-finch-5?now=1"));
  CHECK(answer["restorableUntil"].is_null());
  CHECK(send(client, post, "/api/v1/runs/calm-finch-5/restore").status == 404);
  // Also what was hidden before.
  yard.over("calm-finch-6");
  REQUIRE(send(client, del, "/api/v1/runs/calm-finch-6").status == 200);
  REQUIRE(send(client, del, "/api/v1/runs/calm-finch-6?now=1").status == 200);
  CHECK(send(client, post, "/api/v1/runs/calm-finch-6/restore").status == 404);
  yard.collector.start();
  const SteadyTime end = yard.clock.steady() + seconds(30);
  while (yard.count("runs") > 0 && yard.clock.steady() < end) {
    yard.clock.sleep_until(yard.clock.steady() + milliseconds(5), {});
  }
  CHECK(yard.count("runs") == 0);
  yard.collector.stop();
  yard.house->collector = nullptr;
}

TEST_CASE("a beginning of an id means a deleted run only where no other run has it") {
  Deleting yard;
  http::Client client = yard.over_socket();
  for (const char* id : {"sweep-1", "sweep-10", "wide-20", "wide-21"}) yard.over(id);
  REQUIRE(send(client, del, "/api/v1/runs/sweep-10").status == 200);
  REQUIRE(send(client, del, "/api/v1/runs/wide-20").status == 200);
  // The whole id of another run.
  CHECK(json_of(send(client, post, "/api/v1/runs/sweep-1/restore"))["id"] == "sweep-1");
  CHECK(json_of(send(client, del, "/api/v1/runs/sweep-1?now=1"))["deleted"] == Json({"sweep-1"}));
  CHECK(yard.count("runs WHERE id = 'sweep-10' AND deleted > 1") == 1);
  // The beginning of both.
  CHECK(send(client, del, "/api/v1/runs/wide-2?now=1").status == 409);
  CHECK(send(client, post, "/api/v1/runs/wide-2/restore").status == 409);
  CHECK(json_of(send(client, post, "/api/v1/runs/wide-20/restore"))["id"] == "wide-20");
}

TEST_CASE("an experiment with a live run is restored, by its owner or the workspace's admin") {
  Deleting yard;
  http::Client client = yard.over_socket();
  const std::string url = "/api/v1/workspaces/default/experiments";
  yard.over("one");
  REQUIRE(send(client, del, url + "?name=tests").status == 200);
  yard.submit("live");
  http::Client sam = yard.over_tcp(yard.token_of("sam", Role::submitter));
  CHECK(send(sam, post, url + "/restore", R"({"name": "tests"})").status == 403);
  CHECK(json_of(send(client, post, url + "/restore", R"({"name": "tests"})"))["restored"] == 1);
}

TEST_CASE("a run restored while its experiment is being deleted stays") {
  Deleting yard;
  http::Client client = yard.over_socket();
  yard.over("one", "tries");
  REQUIRE(send(client, del, "/api/v1/runs/one").status == 200);
  yard.change(  // As after a crash between two batches.
      "UPDATE experiments SET deleted = 1000000 * unixepoch(), deleting_when = 1000000 * "
      "unixepoch(), deleting_through = (SELECT MAX(number) FROM runs) WHERE name = 'tries'");
  REQUIRE(send(client, post, "/api/v1/runs/one/restore").status == 200);
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).has_value());
  CHECK(fetch(client, "/api/v1/runs/one").status == 200);
}

TEST_CASE(
    "an experiment goes with its runs, comes back with them, and a new run revives its name") {
  Deleting yard;
  http::Client client = yard.over_socket();
  const std::string url = "/api/v1/workspaces/default/experiments";
  yard.over("one", "tries");
  yard.over("two", "tries");
  yard.over("three", "other");
  REQUIRE(send(client, del, "/api/v1/runs/one").status == 200);
  yard.let_a_second_pass();
  CHECK(json_of(send(client, del, url + "?name=tries"))["deleted"] == 1);
  CHECK(json_of(send(client, del, url + "?name=tries"))["deleted"] == 0);  // Changes nothing.
  CHECK(yard.listed(client) == Json({"three"}));
  CHECK(json_of(fetch(client, url))["items"].size() == 1);
  CHECK(json_of(send(client, post, url + "/restore", R"({"name": "tries"})"))["restored"] == 1);
  CHECK(yard.listed(client) == Json({"three", "two"}));

  REQUIRE(send(client, del, url + "?name=tries").status == 200);
  yard.over("four", "tries");
  CHECK(yard.listed(client) == Json({"four", "three"}));
  yard.let_a_week_pass();
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).has_value());
  CHECK(yard.count("runs") == 2);
  CHECK(yard.count("experiments") == 2);

  yard.submit("live");
  CHECK(send(client, del, url + "?name=tests").status == 409);
  CHECK(send(client, del, url + "?name=nothing").status == 404);
  CHECK(send(client, del, url).status == 400);
  // Other people's runs are an admin's to delete.
  http::Client sam = yard.over_tcp(yard.token_of("sam", Role::submitter));
  CHECK(send(sam, del, url + "?name=tries").status == 403);
}

TEST_CASE("a deletion of an experiment that a crash has interrupted is finished by the collector") {
  Deleting yard;
  http::Client client = yard.over_socket();
  const std::string url = "/api/v1/workspaces/default/experiments";
  for (const char* id : {"one", "two", "three"}) yard.over(id, "tries");
  yard.over("other");
  REQUIRE(send(client, del, "/api/v1/runs/three").status == 200);
  yard.let_a_second_pass();
  // The experiment is hidden and none of its runs is deleted yet.
  yard.change(
      "UPDATE experiments SET deleted = 1000000 * unixepoch(), deleting_when = 1000000 * "
      "unixepoch(), deleting_through = (SELECT MAX(number) FROM runs) WHERE name = 'tries'");
  // A run that came meanwhile stays.
  yard.over("late", "tries");
  CHECK(yard.listed(client) == Json({"late", "other", "two", "one"}));
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).has_value());
  CHECK(yard.listed(client) == Json({"late", "other"}));
  CHECK(yard.count("runs") == 5);
  // The late run has brought the experiment back: all of it can be restored.
  CHECK(json_of(send(client, post, url + "/restore", R"({"name": "tries"})"))["restored"] == 3);
  CHECK(fetch(client, "/api/v1/runs/one").status == 200);

  yard.change(  // By --now.
      "UPDATE experiments SET deleted = 1, deleting_when = 1, deleting_through = "
      "(SELECT MAX(number) FROM runs) WHERE name = 'tries'");
  REQUIRE(send(client, del, "/api/v1/runs/one").status == 200);
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).has_value());
  CHECK(yard.count("runs") == 1);
}

TEST_CASE("a deleted environment is not found, keeps its version, and comes back") {
  Deleting yard;
  http::Client client = yard.over_socket();
  const std::string url = "/api/v1/workspaces/default/environments";
  const std::string one =
      R"({"name": "mine", "version": "1", "recipe": {"kind": "venv", "requirements": ["pear"]}})";
  const std::string other =
      R"({"name": "mine", "version": "1", "recipe": {"kind": "venv", "requirements": ["fig"]}})";
  REQUIRE(send(client, post, url, one).status == 201);
  REQUIRE(send(client, del, url + "/mine").status == 204);
  CHECK(json_of(fetch(client, url))["items"].empty());
  const http::Response gone = fetch(client, url + "/mine");
  CHECK(gone.status == 404);
  CHECK(gone.body.find("trainyard environment restore -n mine") != std::string::npos);
  CHECK(send(client, post, url, other).status == 409);
  REQUIRE(send(client, patch, url + "/mine", R"({"archived": false})").status == 204);
  CHECK(fetch(client, url + "/mine").status == 200);
  REQUIRE(send(client, del, url + "/mine?version=1&now=1").status == 204);
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).has_value());
  CHECK(send(client, post, url, other).status == 201);
}

TEST_CASE("nobody deletes for good what another has deleted and can restore") {
  Deleting yard;
  http::Client client = yard.over_socket();
  http::Client sam = yard.over_tcp(yard.token_of("sam", Role::submitter));
  const std::string url = "/api/v1/workspaces/default/environments";
  const std::string one =
      R"({"name": "mine", "version": "1", "recipe": {"kind": "venv", "requirements": ["pear"]}})";
  REQUIRE(send(client, post, url, one).status == 201);
  REQUIRE(send(client, del, url + "/mine").status == 204);
  CHECK(send(sam, del, url + "/mine?now=1").status == 403);
  REQUIRE(send(client, del, url + "/mine?now=1").status == 204);
  // Until it is purged its version is taken, and there is nothing to restore.
  const http::Response again = send(client, post, url, one);
  CHECK(again.body.find("restore") == std::string::npos);
}

TEST_CASE("a workspace's retention deletes runs by age, with their children") {
  Deleting yard;
  http::Client client = yard.over_socket();
  yard.over("old-1");
  yard.over("old-2", "tests", "old-1");
  yard.over("fresh");
  yard.change("UPDATE runs SET ended = ended - 8640000000000 WHERE id LIKE 'old-%'");  // 100 days.
  const std::string url = "/api/v1/workspaces/default";
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).value()["expiredRuns"] == 0);
  CHECK(send(client, patch, url, R"({"retentionSeconds": 60})").status == 400);
  REQUIRE(send(client, patch, url, R"({"retentionSeconds": 7776000})").status == 200);
  for (const auto mode : {Collector::Mode::dry_run, Collector::Mode::remove}) {
    CHECK(yard.listed(client, "?children=1").size() == 3);
    CHECK(yard.collector.collect(mode, {}).value()["expiredRuns"] == 2);
  }
  CHECK(yard.listed(client, "?children=1") == Json({"fresh"}));
  // As any other deletion, it can be taken back for a week.
  CHECK(send(client, post, "/api/v1/runs/old-1/restore").status == 200);
}

TEST_CASE("retention passes over a run with a child that is not over") {
  Deleting yard;
  http::Client client = yard.over_socket();
  for (const char* id : {"old-1", "old-2", "old-3"}) yard.over(id);
  yard.change("UPDATE runs SET ended = ended - 8640000000000");
  RunSpec child;
  child.experiment = "tests";
  child.command = {"true"};
  child.parent = "old-1";
  REQUIRE(yard.control->submit({RunId{"live"}, child, "owner"}).has_value());
  REQUIRE(send(client, patch, "/api/v1/workspaces/default", R"({"retentionSeconds": 7776000})")
              .status == 200);
  for (const auto mode : {Collector::Mode::dry_run, Collector::Mode::remove}) {
    CHECK(yard.collector.collect(mode, {}).value()["expiredRuns"] == 2);
  }
  CHECK(yard.listed(client) == Json({"old-1"}));
}

TEST_CASE("a deleted workspace is gone at once, and its runs by batches, also after a kill") {
  Deleting yard;
  http::Client client = yard.over_socket();
  REQUIRE(send(client, post, "/api/v1/workspaces", R"({"name":"lab"})").status == 201);
  yard.over("kept-1");
  for (const char* id : {"lab-1", "lab-2", "lab-3"}) yard.over(id, "tests", {}, "lab");
  const RunId first{"lab-1"};
  const logs::Piece piece{logs::Stream::out, "x"};
  REQUIRE(yard.logs->append({first, 1}, 0, 0, {&piece, 1}).has_value());
  // Archived and deleted ones go too.
  REQUIRE(send(client, patch, "/api/v1/runs/lab-1", R"({"archived":true})").status == 200);
  REQUIRE(send(client, del, "/api/v1/runs/lab-2").status < 300);
  RunSpec open;
  open.workspace = "lab";
  open.experiment = "e";
  open.command = {"true"};
  REQUIRE(yard.control->submit({RunId{"open-1"}, open, "owner"}).has_value());
  CHECK(send(client, del, "/api/v1/workspaces/lab").status == 409);
  REQUIRE(send(client, post, "/api/v1/runs/open-1/cancel").status == 200);
  CHECK(fetch(client, "/api/v1/runs/lab-3").status == 200);

  REQUIRE(send(client, del, "/api/v1/workspaces/lab").status == 204);
  CHECK(yard.count("runs") == 5);
  CHECK(yard.listed(client) == Json::array({"kept-1"}));
  CHECK(yard.listed(client, "?experiment=tests") == Json::array({"kept-1"}));
  CHECK(yard.listed(client, "?status=Completed&children=1&archived=any") ==
        Json::array({"kept-1"}));
  for (const char* id : {"lab-1", "lab-2", "lab-3"}) {
    CHECK(fetch(client, std::string("/api/v1/runs/") + id).status == 404);
  }
  CHECK(fetch(client, "/api/v1/workspaces/lab").status == 404);
  // The name is free for another one, which has nothing of the first.
  REQUIRE(send(client, post, "/api/v1/workspaces", R"({"name":"lab"})").status == 201);
  CHECK(yard.listed(client, "?workspace=lab").empty());

  std::stop_source killed;
  killed.request_stop();
  CHECK_FALSE(yard.collector.collect(Collector::Mode::remove, killed.get_token()).has_value());
  REQUIRE(yard.collector.collect(Collector::Mode::remove, {}).has_value());
  CHECK(yard.count("runs") == 1);
  CHECK(yard.count("workspaces") == 2);
  CHECK(yard.count("experiments") == 1);
  CHECK_FALSE(fs::exists(yard.home.run(first)));
  CHECK(yard.store->check());
}

TEST_CASE("deleted runs are listed to those who may restore them, and until when") {
  Deleting yard;
  http::Client admin = yard.over_socket();
  yard.over("kept");
  yard.over("alone");
  yard.over("above");
  yard.over("below", "tests", "above");
  yard.over("gone");
  for (const char* id : {"alone", "above", "gone"}) {
    REQUIRE(send(admin, del, "/api/v1/runs/" + std::string(id)).status == 200);
  }
  REQUIRE(send(admin, del, "/api/v1/runs/gone?now=1").status == 200);
  CHECK(yard.listed(admin, "?deleted=only") == Json({"above", "alone"}));
  CHECK(yard.listed(admin, "?deleted=only&children=1") == Json({"below", "above", "alone"}));
  CHECK(yard.listed(admin, "?deleted=only&workspace=default&status=Completed&limit=1") ==
        Json({"above"}));
  CHECK(yard.listed(admin, "?deleted=no") == Json({"kept"}));
  CHECK(fetch(admin, "/api/v1/runs?deleted=any").status == 400);
  const Json item = json_of(fetch(admin, "/api/v1/runs?deleted=only"))["items"][0];
  const auto deleted = parse_time(item["deletedAt"].get<std::string>());
  REQUIRE(deleted);
  CHECK(item["restorableUntil"] == format_time(*deleted + store::kKeepDeleted));
  CHECK_FALSE(json_of(fetch(admin, "/api/v1/runs"))["items"][0].contains("deletedAt"));

  http::Client other = yard.over_tcp(yard.token_of("other", Role::submitter));
  CHECK(yard.listed(other, "?deleted=only") == Json::array());
  CHECK(fetch(other, "/api/v1/runs?deleted=only&user=owner").status == 403);
}

}  // namespace trainyard::api
