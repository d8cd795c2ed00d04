#include "store/computes.h"

#include "api/test_yard.h"
#include "store/history.h"
#include "store/run_rows.h"

// Targets as people see and change them over the API.
namespace trainyard::api {
namespace {

using enum http::Method;

struct Shop {
  Yard yard;
  http::Client admin = yard.over_socket();

  // As if it had been made.
  void insert(const ComputeSpec& spec, std::string_view workspace = "default") {
    const Status done = yard.store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY(store::insert_compute(t, workspace, spec, "ada", yard.clock.wall()));
      return {};
    });
    REQUIRE(done.has_value());
  }
  void add_run(const std::string& id, RunStatus status) {
    RunSpec spec = store::plain_spec();
    spec.target = "lab";
    const Status done = yard.store->write(Durable::no, [&](db::Transaction& t) -> Status {
      TRY_SET(store::RunHead head, store::add_queued_run(t, RunId{id}, spec, yard.clock.wall()));
      head.life.status = status;
      return store::save_run(t, head);
    });
    REQUIRE(done.has_value());
  }
  http::Response ask(http::Method method, std::string_view rest, std::string body = {}) {
    return send(admin, method, "/api/v1/workspaces/default/computes" + std::string(rest),
                std::move(body));
  }
};

const ComputeSpec kLab{.name = "lab", .partition = "gpu", .max_nodes = 4};

TEST_CASE("the list of targets begins with local and goes on with those that were made") {
  Shop shop;
  shop.insert(kLab);
  shop.insert({.name = "a-cluster"});
  REQUIRE(shop.yard.store->create_workspace({.name = "other"}).has_value());
  shop.insert({.name = "elsewhere"}, "other");
  const Json items = json_of(shop.ask(get, ""))["items"];
  REQUIRE(items.size() == 3);
  CHECK(items[0]["name"] == "local");
  CHECK(items[0]["engine"] == "local");
  CHECK(items[0]["cpus"] == 2);
  CHECK(items[1]["name"] == "a-cluster");
  CHECK(items[2]["name"] == "lab");
  CHECK(items[2]["maxNodes"] == 4);
  CHECK(items[2]["partition"] == "gpu");
  CHECK(items[2]["createdBy"] == "ada");
  CHECK(items[2]["workspace"] == "default");
  CHECK(items[2]["state"] == "ready");
  const Json page = json_of(shop.ask(get, "?limit=2"));
  CHECK(page["items"].size() == 2);
  CHECK(page["next"] == "2");
  CHECK(shop.ask(get, "/local").status == 200);
  CHECK(fetch(shop.admin, "/api/v1/workspaces/nowhere/computes").status == 404);
  CHECK(fetch(shop.admin, "/api/v1/workspaces/nowhere/computes/local").status == 404);
}

TEST_CASE("a compute is made once") {
  Shop shop;
  CHECK(shop.ask(post, "", R"({"name":"lab"})").status == 201);
  CHECK(shop.ask(post, "", R"({"name":"lab"})").status == 200);
  CHECK(shop.ask(post, "", R"({"name":"lab","maxNodes":3})").status == 409);
  CHECK(shop.ask(post, "", R"({"name":"local"})").status == 400);
  CHECK(json_of(shop.ask(get, ""))["items"].size() == 2);
}

TEST_CASE("two computes do not bring the same nodes up and down") {
  Shop shop;
  const auto body = [](const std::string& name, const std::string& more) {
    return R"({"name":")" + name + R"(","nodeUp":"/up","nodeDown":"/down")" + more + "}";
  };
  CHECK(shop.ask(post, "", body("first", "")).status == 201);
  CHECK(shop.ask(post, "", body("first", "")).status == 200);
  const http::Response refused = shop.ask(post, "", body("second", ""));
  CHECK(refused.status == 409);
  CHECK(refused.body.find("'first' of workspace 'default'") != std::string::npos);
  CHECK(shop.ask(post, "", body("second", R"(,"partition":"gpu","minNodes":1)")).status == 201);
  CHECK(shop.ask(post, "", R"({"name":"third"})").status == 201);
  CHECK(shop.ask(patch, "/second", R"({"partition":""})").status == 409);
  CHECK(shop.ask(patch, "/first", R"({"maxNodes":9})").status == 200);
}

TEST_CASE("the nodes of a target are a list of pages, and of this machine one") {
  Shop shop;
  shop.insert(kLab);
  CHECK(json_of(shop.ask(get, "/lab/nodes"))["items"].empty());
  const Json local = json_of(shop.ask(get, "/local/nodes?limit=1"));
  REQUIRE(local["items"].size() == 1);
  CHECK(local["items"][0]["state"] == "idle");
  CHECK(local["items"][0]["cpus"] == 2);
  CHECK(local["next"].is_null());
  CHECK(shop.ask(get, "/none/nodes").status == 404);
  CHECK(fetch(shop.admin, "/api/v1/workspaces/nowhere/computes/local/nodes").status == 404);
}

TEST_CASE("a server that no node can reach has no clusters") {
  Facts facts;
  facts.loopback = true;
  Yard yard(facts);
  http::Client admin = yard.over_socket();
  const http::Response refused =
      send(admin, post, "/api/v1/workspaces/default/computes", R"({"name":"lab"})");
  CHECK(refused.status == 400);
  CHECK(refused.body.find("--listen") != std::string::npos);
}

TEST_CASE("a compute shows what waits and what is live there") {
  Shop shop;
  shop.insert(kLab);
  shop.add_run("calm-finch-1", RunStatus::running);
  shop.add_run("calm-finch-2", RunStatus::queued);
  shop.add_run("calm-finch-3", RunStatus::queued);
  shop.add_run("calm-finch-4", RunStatus::failed);
  const Json shown = json_of(shop.ask(get, "/lab"));
  CHECK(shown["queued"] == 2);
  CHECK(shown["live"] == 1);
  CHECK(json_of(shop.ask(get, "/local"))["live"] == 0);
  const http::Response refused = shop.ask(del, "/lab");
  CHECK(refused.status == 409);
  CHECK(refused.body.find("2 queued, 1 live, the oldest calm-finch-1") != std::string::npos);
}

TEST_CASE("a compute is changed, paused, resumed and deleted; local is not") {
  Shop shop;
  shop.insert(kLab);
  const Json changed = json_of(shop.ask(patch, "/lab", R"({"maxNodes":8,"idleSeconds":60})"));
  CHECK(changed["maxNodes"] == 8);
  CHECK(changed["idleSeconds"] == 60);
  CHECK(shop.ask(patch, "/lab", R"({"minNodes":99})").status == 400);
  CHECK(changed["partition"] == "gpu");
  CHECK(shop.ask(patch, "/lab", R"({"maxNodes":0})").status == 400);
  CHECK(shop.ask(patch, "/lab", R"([1])").status == 400);
  CHECK(json_of(shop.ask(post, "/lab/pause"))["state"] == "paused");
  CHECK(json_of(shop.ask(get, "/lab"))["paused"] == true);
  CHECK(json_of(shop.ask(post, "/lab/resume"))["state"] == "ready");
  for (const auto& [method, rest] : {std::pair{patch, "/local"},
                                     {del, "/local"},
                                     {post, "/local/pause"},
                                     {post, "/local/resume"}}) {
    const http::Response refused = shop.ask(method, rest, "{}");
    CHECK(refused.status == 400);
    CHECK(refused.body.find("'local' is this machine") != std::string::npos);
  }
  CHECK(shop.ask(del, "/lab").status == 204);
  const http::Response gone = shop.ask(get, "/lab");
  CHECK(gone.status == 404);
  CHECK(gone.body.find("There are: local.") != std::string::npos);
}

TEST_CASE("the sizes are listed in pages, set, and deleted") {
  Shop shop;
  const Json first = json_of(fetch(shop.admin, "/api/v1/sizes?limit=3"));
  CHECK(first["items"].size() == 3);
  CHECK(first["items"][0]["gpus"] == 0);
  CHECK(first["next"] == "3");
  const Json made = json_of(send(shop.admin, put, "/api/v1/sizes/box",
                                 R"({"vCPUs":8,"memoryGB":64,"gpus":2,"pricePerHour":1.5})"));
  CHECK(made["name"] == "box");
  CHECK(made["lowPriorityPricePerHour"] == 1.5);
  CHECK(send(shop.admin, put, "/api/v1/sizes/box", R"({"gpus":-1})").status == 400);
  CHECK(send(shop.admin, put, "/api/v1/sizes/a%20b", R"({"vCPUs":8,"memoryGB":64})").status == 400);
  CHECK(send(shop.admin, del, "/api/v1/sizes/BOX").status == 204);
  CHECK(send(shop.admin, del, "/api/v1/sizes/box").status == 404);
}

}  // namespace
}  // namespace trainyard::api
