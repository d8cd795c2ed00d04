// Lists of runs: what their entries have, and how slow ones leave the others alone.
#include <thread>

#include "api/test_yard.h"
#include "store/metrics.h"
#include "store/run_rows.h"

using namespace trainyard;
using namespace trainyard::api;
using wire::Json;

namespace {

Json listed_runs(http::Client& client, const std::string& query) {
  const http::Response response = send(client, http::Method::get, "/api/v1/runs?" + query);
  REQUIRE_MESSAGE(response.status == 200, response.body);
  return wire::parse(response.body).value()["items"];
}

}  // namespace

TEST_CASE("slow lists wait for their turn without a worker, and quick ones pass them") {
  Yard yard;
  yard.submit("run-1");
  std::vector<SlowLane::Place> taken;
  while (auto place = yard.house->slow_lane.enter()) taken.push_back(std::move(*place));
  constexpr size_t kSlow = 12;  // More than there are workers.
  std::vector<std::jthread> slow;
  std::atomic<int> answered = 0;
  for (size_t i = 0; i < kSlow; ++i) {
    slow.emplace_back([&] {
      http::Client client = yard.over_socket();
      const auto response =
          client.send({.target = "/api/v1/runs?limit=1000", .timeout = std::chrono::seconds(60)});
      if (response && response->status == 200) ++answered;
    });
  }
  while (yard.server->counts().parked < kSlow) std::this_thread::yield();
  http::Client client = yard.over_socket();
  CHECK(listed_runs(client, "limit=10").size() == 1);
  CHECK(answered == 0);
  taken.clear();
  slow.clear();
  CHECK(answered == kSlow);
}

TEST_CASE("a list that was slow once goes to the slow lane, until it is quick") {
  Yard yard;
  yard.submit("run-1");
  SlowLane& lane = yard.house->slow_lane;
  lane.remember("limit=7&");
  http::Client client = yard.over_socket();
  CHECK(listed_runs(client, "limit=7").size() == 1);
  CHECK_FALSE(lane.remembers("limit=7&"));
  lane.remember("limit=7&");  // Any page of it.
  CHECK(listed_runs(client, "limit=7&cursor=1").empty());
  CHECK_FALSE(lane.remembers("limit=7&"));
}

TEST_CASE("runs are listed by user, several statuses in any case, and several tags") {
  Yard yard;
  for (const auto& [id, tags] : std::map<std::string, std::map<std::string, std::string>>{
           {"run-1", {{"a", "1"}, {"b", "2"}}}, {"run-2", {{"a", "1"}}}}) {
    RunSpec spec;
    spec.experiment = "tests";
    spec.command = {"true"};
    spec.tags = tags;
    REQUIRE(yard.control->submit({RunId{id}, spec, "owner"}).has_value());
  }
  http::Client client = yard.over_socket();
  CHECK(listed_runs(client, "user=owner").size() == 2);
  CHECK(listed_runs(client, "user=nobody").empty());
  CHECK(listed_runs(client, "status=queued,failed").size() == 2);
  CHECK(listed_runs(client, "status=Failed").empty());
  CHECK(listed_runs(client, "tag=a=1").size() == 2);
  const Json both = listed_runs(client, "tags=%7B%22a%22:%221%22,%22b%22:null%7D");
  REQUIRE(both.size() == 1);
  CHECK(both[0]["id"] == "run-1");
  for (const char* wrong : {"status=Done", "tags=7", "tags=%7B%22a%22:1%7D", "archived=maybe"}) {
    CHECK(send(client, http::Method::get, std::string("/api/v1/runs?") + wrong).status == 400);
  }
}

TEST_CASE("200,000 metric names of a run leave its list bounded") {
  Yard yard;
  const RunId id = yard.submit("run-1");
  REQUIRE(yard.store->write(Durable::no, [&](db::Transaction& t) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(t.db(), id));
    TRY(
        t.run("INSERT INTO metrics (run, name, kind, points, last_value, last_at) "
              "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) "
              "SELECT ?, 'm' || i, 'scalar', 1, i, 0 FROM n",
              {head.number}));
    return {};
  }));
  http::Client client = yard.over_socket();
  const http::Response response = send(client, http::Method::get, "/api/v1/runs");
  CHECK(response.status == 200);
  CHECK(response.body.size() < 20'000);
  CHECK(listed_runs(client, "")[0]["metrics"].size() == 100);
  const http::Response shown = send(client, http::Method::get, "/api/v1/runs/run-1");
  CHECK(shown.status == 200);
}
