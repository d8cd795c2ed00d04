// What is left of a right a moment after it was taken away; and what rights cannot be handed on.
#include <thread>

#include "api/test_yard.h"
#include "store/machines.h"

namespace trainyard::api {
namespace {

using enum http::Method;

struct RightsTeam {
  Yard yard{{}, 1};
  std::string admin = yard.token_of("ada", Role::admin);
  std::string sam = yard.token_of("sam", Role::submitter);

  int ask(const std::string& token, http::Method method, const std::string& url,
          const std::string& body = {}) {
    http::Client client = yard.over_tcp(token);
    return send(client, method, url, body).status;
  }
  Json got(const std::string& token, http::Method method, const std::string& url,
           const std::string& body = {}) {
    http::Client client = yard.over_tcp(token);
    return json_of(send(client, method, url, body));
  }
  RunId submit(const std::string& id, const std::string& workspace = "default",
               std::vector<std::string> secrets = {}) {
    RunSpec spec;
    spec.workspace = workspace;
    spec.experiment = "tests";
    spec.command = {"sleep", "1000"};
    spec.secrets = std::move(secrets);
    REQUIRE(yard.control->submit({RunId{id}, spec, "sam"}).has_value());
    return RunId{id};
  }
};

void check_ended(RightsTeam& team, const RunId& live, const RunId& waiting,
                 const std::string& attempt, const std::string& why) {
  for (const std::string& url :
       {"/api/v1/runs/" + live.value + "/attempts/1/orders", std::string("/api/v1/runs"),
        "/api/v1/runs/" + live.value + "/attempts/1/secrets"}) {
    http::Client client = team.yard.over_tcp(attempt);
    const http::Response answer = fetch(client, url);
    CHECK(answer.status == 409);
    CHECK(answer.body.find(why) != std::string::npos);
  }
  const Json run = team.got(team.admin, get, "/api/v1/runs/" + live.value);
  CHECK(run["status"] == "CancelRequested");
  CHECK(run["reason"] == why);
  const Json second = team.got(team.admin, get, "/api/v1/runs/" + waiting.value);
  CHECK(second["status"] == "Canceled");
  CHECK(second["error"] == why);
}

TEST_CASE("deleting a user stops their tokens, attempts, runs and commands at once") {
  RightsTeam team;
  const RunId live = team.submit("calm-finch-1");
  const std::string attempt = team.yard.place(live);
  const RunId waiting = team.submit("calm-finch-2");
  const std::string exec =
      team.yard.house->execs
          .add({.place = Execs::place_of({live, 1}, 0), .command = {"sh"}, .by = "sam"},
               team.yard.clock.steady())
          .value();
  CHECK(team.ask(team.admin, del, "/api/v1/users/sam") == 204);
  CHECK(team.ask(team.sam, get, "/api/v1/runs") == 401);
  check_ended(team, live, waiting, attempt, "user 'sam' was deleted");
  CHECK(team.yard.house->execs.stopped(exec));
}

TEST_CASE("a follower whose user is deleted while it waits gets nothing more") {
  RightsTeam team;
  const RunId live = team.submit("calm-finch-1");
  team.yard.place(live);
  const std::string version = std::to_string(team.yard.house->watch.glance(live).value()->version);
  int status = 0;
  std::jthread follower([&] {
    status = team.ask(team.sam, get,
                      "/api/v1/runs/" + live.value + "/follow?wait=20&version=" + version);
  });
  while (team.yard.server->counts().parked == 0) std::this_thread::yield();
  CHECK(team.ask(team.admin, del, "/api/v1/users/sam") == 204);
  follower.join();
  CHECK(status == 401);
}

TEST_CASE("demoting a user ends the runs they may not submit any more") {
  RightsTeam team;
  const RunId live = team.submit("calm-finch-1");
  const std::string attempt = team.yard.place(live);
  const RunId waiting = team.submit("calm-finch-2");
  CHECK(team.ask(team.sam, patch, "/api/v1/users/sam", R"({"role":"admin"})") == 403);
  CHECK(team.ask(team.admin, patch, "/api/v1/users/sam", R"({"role":"boss"})") == 400);
  CHECK(team.ask(team.admin, patch, "/api/v1/users/nobody", R"({"role":"reader"})") == 404);
  CHECK(team.ask(team.admin, patch, "/api/v1/users/sam", R"({"role":"submitter"})") == 200);
  CHECK(team.ask(attempt, get, "/api/v1/runs") == 200);
  CHECK(team.ask(team.admin, patch, "/api/v1/users/sam", R"({"role":"reader"})") == 200);
  check_ended(team, live, waiting, attempt, "user 'sam' is reader now");
  CHECK(team.ask(team.sam, get, "/api/v1/runs") == 200);
}

TEST_CASE("who is no member any more has no run in the workspace, and keeps those elsewhere") {
  RightsTeam team;
  REQUIRE(team.yard.store->create_workspace({.name = "vision"}).has_value());
  const std::string members = "/api/v1/workspaces/vision/members/sam";
  CHECK(team.ask(team.admin, put, members, R"({"role":"submitter"})") == 200);
  const RunId live = team.submit("calm-finch-1", "vision");
  const std::string attempt = team.yard.place(live);
  const RunId waiting = team.submit("calm-finch-2", "vision");
  const RunId elsewhere = team.submit("calm-finch-3");
  CHECK(team.ask(team.sam, get, "/api/v1/runs/" + live.value + "/follow") == 200);
  CHECK(team.ask(team.admin, del, members) == 204);
  check_ended(team, live, waiting, attempt,
              "user 'sam' is no member of workspace 'vision' any more");
  CHECK(team.ask(team.sam, get, "/api/v1/runs/" + live.value + "/follow") == 403);
  CHECK(team.got(team.sam, get, "/api/v1/runs/" + elsewhere.value)["status"] == "Queued");
  CHECK(team.ask(team.admin, del, members) == 404);
}

TEST_CASE("closing a workspace ends no run") {
  RightsTeam team;
  const RunId live = team.submit("calm-finch-1");
  const std::string attempt = team.yard.place(live);
  CHECK(team.ask(team.admin, patch, "/api/v1/workspaces/default", R"({"access":"members"})") ==
        200);
  CHECK(team.ask(team.sam, get, "/api/v1/runs/" + live.value) == 403);
  CHECK(team.ask(attempt, get, "/api/v1/runs/" + live.value) == 200);
  CHECK(team.ask(team.admin, patch, "/api/v1/workspaces/default", R"({"access":"everyone"})") ==
        200);
  CHECK(team.ask(team.sam, get, "/api/v1/runs/" + live.value) == 200);
}

TEST_CASE("a token makes none that outlives it or has more rights, and takes them along") {
  RightsTeam team;
  const auto make = [&](const std::string& token, const std::string& body) {
    return team.got(token, post, "/api/v1/tokens", body);
  };
  const Json brief = make(team.admin, R"({"expiresInSeconds":3600,"role":"submitter"})");
  const std::string secret = brief["token"];
  CHECK(brief["role"] == "submitter");
  CHECK(team.ask(secret, get, "/api/v1/runs") == 200);
  CHECK(team.ask(secret, post, "/api/v1/users", R"({"name":"eve"})") == 403);
  CHECK(team.ask(secret, post, "/api/v1/tokens", R"({"expiresInSeconds":7200})") == 403);
  CHECK(team.ask(secret, post, "/api/v1/tokens", R"({"role":"admin"})") == 403);
  CHECK(team.ask(secret, post, "/api/v1/tokens", R"({"user":"sam"})") == 403);
  const Json child = make(secret, "{}");
  CHECK(child["expiresAt"] == brief["expiresAt"]);
  CHECK(child["role"] == "submitter");
  CHECK(child["parent"] == brief["id"]);
  const Json grandchild = make(child["token"], R"({"role":"reader","expiresInSeconds":60})");
  CHECK(grandchild["role"] == "reader");
  const Json node = team.got(team.admin, post, "/api/v1/node-tokens", "{}");
  CHECK(team.ask(team.admin, del, "/api/v1/tokens/" + brief["id"].dump()) == 204);
  for (const Json& token : {brief, child, grandchild}) {
    CHECK(team.ask(token["token"], get, "/api/v1/runs") == 401);
  }
  CHECK(node["parent"].is_number());
}

TEST_CASE("an attempt's children name only secrets that its run names") {
  RightsTeam team;
  for (const char* name : {"MINE", "OTHER"}) {
    CHECK(team.ask(team.admin, put, "/api/v1/workspaces/default/secrets/" + std::string(name),
                   R"({"value":"sesame"})") == 200);
  }
  const RunId run = team.submit("calm-finch-1", "default", {"MINE"});
  const std::string attempt = team.yard.place(run);
  int children = 0;
  const auto child = [&](const std::string& more) {
    return team.ask(attempt, post, "/api/v1/runs",
                    R"({"id":"child-)" + std::to_string(++children) +
                        R"(","spec":{"workspace":"default","experiment":"e","command":["true"],)" +
                        more + "}}");
  };
  CHECK(child(R"("secrets":["OTHER"])") == 403);
  CHECK(child(R"("secrets":["MINE","OTHER"])") == 403);
  CHECK(child(R"("environment":{"registry":{"address":"evil.example","secret":"OTHER"}})") == 403);
  CHECK(child(R"("secrets":["MINE"])") == 201);
  // By the name of an environment that brings the secret along, neither.
  for (const auto& [secret, status] : {std::pair("OTHER", 403), std::pair("MINE", 201)}) {
    CAPTURE(secret);
    const std::string name = lower(secret);
    CHECK(team.ask(team.admin, post, "/api/v1/workspaces/default/environments",
                   R"({"name":")" + name +
                       R"(","recipe":{"kind":"container","image":"r.example/i"},"registry":)"
                       R"({"address":"r.example","username":"a","secret":")" +
                       secret + R"("}})") == 201);
    CHECK(child(R"("environment":{"name":")" + name + R"("})") == status);
  }
}

TEST_CASE("nobody but its owner runs a command on a person's own machine") {
  RightsTeam team;
  Machine machine;
  const auto make = [&](db::Transaction& transaction) -> Status {
    TRY_SET(machine, store::personal_machine(
                         transaction, "sam", "u1",
                         {.host = "laptop", .version = "1", .cpus = 2, .memory_bytes = 1LL << 30},
                         team.yard.clock.wall()));
    return {};
  };
  REQUIRE(team.yard.store->write(Durable::yes, make).has_value());
  RunSpec spec;
  spec.experiment = "tests";
  spec.command = {"sleep", "1000"};
  spec.host = machine.key;
  team.yard.control->add_target(queue_of(spec), std::make_shared<StillEngine>());
  REQUIRE(team.yard.control->submit({RunId{"calm-finch-1"}, spec, "sam"}).has_value());
  const std::string body = R"({"command":["id"]})";
  CHECK(team.ask(team.admin, post, "/api/v1/runs/calm-finch-1/exec", body) == 403);
  CHECK(team.ask(team.sam, post, "/api/v1/runs/calm-finch-1/exec", body) == 409);  // Not placed.
  CHECK(team.ask(team.admin, post, "/api/v1/machines/" + machine.key + "/exec", body) == 403);
  const std::string submission =
      R"({"id":"calm-finch-2","spec":{"workspace":"default","experiment":"e","command":["id"],)"
      R"("host":")" +
      machine.key + R"("}})";
  CHECK(team.ask(team.admin, post, "/api/v1/runs", submission) == 403);
}

}  // namespace
}  // namespace trainyard::api
