#include "api/machines.h"

#include "api/test_yard.h"
#include "store/machines.h"
#include "wire/machines.h"

namespace trainyard::api {
namespace {

using enum http::Method;

const MachineFacts kFacts{.host = "box", .version = "1", .cpus = 2, .memory_bytes = 1LL << 30};

// A server with one machine, joined as a person would.
struct MachineShop {
  Yard yard;
  Machines machines{{.clock = yard.clock,
                     .log = yard.log,
                     .store = *yard.store,
                     .control = *yard.control,
                     .wake = [this](const std::string& whose) {
                       yard.server->notify(House::machine_key(whose));
                     }}};
  std::string credential;
  std::string key;
  int64_t number = 0;

  MachineShop() {
    yard.house->machines = &machines;
    http::Client admin = yard.over_socket();
    const Json token = json_of(send(admin, post, "/api/v1/node-tokens", R"({"name":"box"})"));
    http::Client fresh = yard.over_tcp(token["token"]);
    const http::Response joined =
        send(fresh, post, "/api/v1/machines",
             wire::dump({{"uid", "u1"}, {"name", ""}, {"facts", wire::encode(kFacts)}}));
    REQUIRE_MESSAGE(joined.status == 201, joined.body);
    credential = json_of(joined)["credential"];
    key = json_of(joined)["key"];
  }
  http::Response poll(const std::string& token, std::vector<HeldAttempt> held = {},
                      int64_t seen = 0) {
    http::Client client = yard.over_tcp(token);
    const MachineReport report{.session = "s",
                               .number = ++number,
                               .facts = kFacts,
                               .seen = seen,
                               .held = std::move(held),
                               .execs = {}};
    return send(client, post, "/api/v1/machines/" + key + "/poll",
                wire::dump(wire::encode(report)));
  }
};

TEST_CASE("a run sent to a machine is told to it, and what it says of it is taken") {
  MachineShop shop;
  RunSpec spec;
  spec.experiment = "e";
  spec.command = {"true"};
  spec.target = "box";
  REQUIRE(shop.yard.control->submit({RunId{"calm-finch-1"}, spec, "owner"}));
  shop.yard.control->tick();
  const auto orders = wire::decode_machine_orders(json_of(shop.poll(shop.credential)));
  REQUIRE(orders);
  REQUIRE(orders->start.size() == 1);
  CHECK(orders->start[0].run == "calm-finch-1");
  const AttemptId attempt{RunId{"calm-finch-1"}, 1};
  CHECK(shop.poll(shop.credential, {{.id = attempt}}, orders->version).status == 204);
  shop.poll(shop.credential, {{.id = attempt, .live = false, .why = "it died"}}, orders->version);
  shop.yard.control->tick();
  const Run run = *shop.yard.control->run(attempt.run);
  REQUIRE(run.attempts.size() >= 1);
  CHECK(run.attempts[0].end->error.find("it died") != std::string::npos);
}

TEST_CASE("a machine's credential opens its own orders and nothing else, and nobody else's do") {
  MachineShop shop;
  CHECK(shop.poll(shop.credential).status == 200);
  CHECK(shop.poll(shop.yard.token_of("sam", Role::submitter)).status == 403);
  CHECK(shop.poll(shop.yard.token_of("ada", Role::admin)).status == 403);
  http::Client machine = shop.yard.over_tcp(shop.credential);
  for (const char* url : {"/api/v1/runs", "/api/v1/machines", "/api/v1/server", "/api/v1/users"}) {
    CAPTURE(url);
    CHECK(fetch(machine, url).status == 403);
  }
  CHECK(fetch(machine, "/api/v1/machines/" + shop.key).status == 200);
  CHECK(send(machine, del, "/api/v1/machines/" + shop.key).status == 204);
  CHECK(shop.poll(shop.credential).status == 401);
}

TEST_CASE("a report that a later one has overtaken is refused") {
  MachineShop shop;
  shop.poll(shop.credential);
  shop.poll(shop.credential);
  shop.number = 0;
  CHECK(shop.poll(shop.credential).status == 409);
}

TEST_CASE("what a machine says it has is what there is to give out") {
  MachineShop shop;
  CHECK(shop.yard.control->load("default/box").capacity.cpus == 2);
  http::Client admin = shop.yard.over_socket();
  const Json shown = json_of(fetch(admin, "/api/v1/machines"))["items"][0];
  CHECK(shown["name"] == "box");
  CHECK(shown["state"] == "ready");
  CHECK_FALSE(shown.contains("credential"));
}

TEST_CASE("'local' of a server that others reach is refused to who is not there") {
  Yard yard(Facts{.server_target = false});
  const std::string token = yard.token_of("sam", Role::submitter);
  const auto status = [&](http::Client client, const std::string& id, const std::string& target) {
    const std::string body = R"({"id":")" + id +
                             R"(","spec":{"experiment":"e","command":["true"],"target":")" +
                             target + R"("}})";
    return send(client, post, "/api/v1/runs", body).status;
  };
  CHECK(status(yard.over_tcp(token), "a", "local") == 403);
  CHECK(status(yard.over_tcp(token), "b", "server") == 403);
  CHECK(status(yard.over_socket(), "c", "local") == 201);
  CHECK(status(yard.over_socket(), "d", "server") == 403);
}

}  // namespace
}  // namespace trainyard::api
