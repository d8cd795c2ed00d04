#include <algorithm>
#include <set>

#include "api/openapi.h"
#include "api/test_yard.h"

namespace trainyard::api {
namespace {

using enum http::Method;

std::string spec_body(const std::string& id, const std::string& command,
                      const std::string& snapshot = "") {
  return wire::dump(
      {{"id", id},
       {"spec",
        {{"experiment", "e"}, {"command", Json::array({command})}, {"snapshot", snapshot}}}});
}

// The URL of a row, with something in each of its places.
std::string filled(std::string_view pattern) {
  std::string url;
  while (true) {
    const size_t open = pattern.find('{');
    if (open == std::string_view::npos) return url.append(pattern);
    url.append(pattern.substr(0, open)).append("77");
    pattern.remove_prefix(pattern.find('}') + 1);
  }
}

TEST_CASE("each route is refused to each role below the one it needs") {
  Yard yard;
  const std::string tokens[] = {yard.token_of("rita", Role::reader),
                                yard.token_of("sam", Role::submitter),
                                yard.token_of("ada", Role::admin)};
  const Role roles[] = {Role::reader, Role::submitter, Role::admin};
  for (const RouteRow& row : all_routes()) {
    if (row.needs == Needs::nothing) continue;
    const std::string url = filled(row.pattern);
    CAPTURE(url);
    http::Client nobody = yard.over_tcp();
    CHECK(send(nobody, row.method, url).status == 401);
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      const bool may =
          check_may({"x", roles[i], {}}, row.needs, row.attempts, false, {}).has_value();
      http::Client client = yard.over_tcp(tokens[i]);
      const int status = send(client, row.method, url).status;
      if (may) {
        CHECK(status != 401);
        CHECK(status != 403);
        CHECK(status < 500);
      } else {
        CHECK(status == 403);
      }
    }
  }
}

TEST_CASE("each request is answered with its status and words") {
  Yard yard;
  yard.submit("calm-finch-2");
  struct Row {
    http::Method method;
    const char* url;
    const char* body;
    int status;
    const char* has;
  };
  const Row rows[] = {
      {get, "/", "", 200, "Trainyard"},
      {get, "/health", "", 200, "\"ok\""},
      {get, "/version", "", 200, "0.1.0"},
      {get, "/nowhere", "", 404, "not_found"},
      {del, "/health", "", 405, "error"},
      {get, "/metrics", "", 200, "trainyard_runs{status=\"Queued\"} 1"},
      {get, "/metrics", "", 200, "trainyard_queue_length 1"},
      {get, "/api/v1/openapi.json", "", 200, "/api/v1/runs/{id}/files/{path}"},
      {get, "/api/v1/server", "", 200, "\"url\":\"http://yard\""},
      {get, "/api/v1/targets", "", 200, "\"cpus\":2"},
      {get, "/api/v1/runs/calm-finch-2", "", 200, "\"status\":\"Queued\""},
      {get, "/api/v1/runs/calm", "", 200, "calm-finch-2"},
      {get, "/api/v1/runs/none", "", 404, "not_found"},
      {get, "/api/v1/runs/..%2f..%2fetc", "", 400, "run id"},
      {get, "/api/v1/runs/%2e%2e", "", 400, "run id"},
      {get, "/api/v1/runs?status=Waiting", "", 400, "invalid"},
      {get, "/api/v1/runs?workspace=none", "", 404, "none"},
      {get, "/api/v1/runs?limit=0", "", 400, "limit"},
      {get, "/api/v1/runs?limit=x", "", 400, "limit"},
      {get, "/api/v1/runs?cursor=-1", "", 400, "cursor"},
      {get, "/api/v1/runs?parent=calm", "", 200, "\"items\":[]"},
      {post, "/api/v1/runs", "{", 400, "JSON"},
      {post, "/api/v1/runs", "[]", 400, "object"},
      {post, "/api/v1/runs", R"({"id":"a"})", 400, "spec"},
      {post, "/api/v1/runs", R"({"id":"../a","spec":{}})", 400, "run id"},
      {post, "/api/v1/runs", R"({"id":"a","spec":{"command":"x"}})", 400, "command"},
      {post, "/api/v1/runs/none/cancel", "", 404, "not_found"},
      {get, "/api/v1/runs/calm-finch-2/wait?wait=x", "", 400, "wait"},
      {get, "/api/v1/runs/calm-finch-2/follow?from=0,0", "", 400, "rank"},
      {get, "/api/v1/runs/calm-finch-2/follow?rank=1", "", 400, "rank"},
      {get, "/api/v1/runs/calm-finch-2/files/none.txt", "", 404, "none.txt"},
      {get, "/api/v1/runs/calm-finch-2/files/outputs/x", "", 404, "not_found"},
      {get, "/api/v1/runs/calm-finch-2/files/..%2f..%2flock", "", 404, "not_found"},
      {get, "/api/v1/blobs/xyz", "", 400, "SHA-256"},
      {post, "/api/v1/blobs/missing", R"({"digests":["a"]})", 400, "SHA-256"},
      {post, "/api/v1/blobs/missing", "{}", 400, "digests"},
      {post, "/api/v1/users", R"({"name":"../x"})", 400, "user"},
      {post, "/api/v1/users", R"({"name":"eve","role":"queen"})", 400, "queen"},
      {post, "/api/v1/users", R"({"name":"eve","role":"reader"})", 201, "\"role\":\"reader\""},
      {post, "/api/v1/users", R"({"name":"eve"})", 409, "conflict"},
      {del, "/api/v1/users/eve", "", 204, ""},
      {del, "/api/v1/users/eve", "", 404, "not_found"},
      {post, "/api/v1/tokens", R"({"user":"nobody"})", 404, "nobody"},
      {post, "/api/v1/tokens", R"({"label":"mine"})", 201, "\"token\":\"tyu_"},
      {post, "/api/v1/tokens", R"({"expiresInSeconds":-1})", 400, "expiresInSeconds"},
      {del, "/api/v1/tokens/999", "", 404, "999"},
      {del, "/api/v1/tokens/x", "", 400, "token id"},
      {post, "/api/v1/workspaces", R"({"name":"a/b"})", 400, "workspace"},
      {post, "/api/v1/workspaces", R"({"name":"lab","resourceGroup":"g"})", 201, "\"g\""},
      {post, "/api/v1/workspaces", R"({"name":"lab"})", 409, "lab"},
      {get, "/api/v1/workspaces/lab", "", 200, "\"resourceGroup\":\"g\""},
      {get, "/api/v1/workspaces/lab/experiments", "", 200, "\"items\":[]"},
      {get, "/api/v1/workspaces/default/experiments", "", 200, "tests"},
      {del, "/api/v1/workspaces/default", "", 409, "conflict"},
      {del, "/api/v1/workspaces/lab", "", 204, ""},
      {get, "/api/v1/workspaces/lab", "", 404, "lab"},
      {post, "/api/v1/server/backup", R"({"folder":"relative"})", 400, "absolute"},
      {post, "/api/v1/server/check", "", 200, "\"ok\":true"},
  };
  http::Client client = yard.over_socket();
  for (const Row& row : rows) {
    CAPTURE(row.url);
    CAPTURE(row.body);
    const http::Response response = send(client, row.method, row.url, row.body);
    CHECK(response.status == row.status);
    CHECK_MESSAGE(response.body.find(row.has) != std::string::npos, response.body);
  }
  CHECK(send(client, post, "/api/v1/server/stop").status == 202);
  CHECK(yard.stops == 1);
}

TEST_CASE("a submission sent twice is one run, and another spec under its id is refused") {
  Yard yard;
  http::Client client = yard.over_socket();
  CHECK(send(client, post, "/api/v1/runs", spec_body("odd-wren-4", "true")).status == 201);
  CHECK(send(client, post, "/api/v1/runs", spec_body("odd-wren-4", "true")).status == 200);
  CHECK(send(client, post, "/api/v1/runs", spec_body("odd-wren-4", "false")).status == 409);
  CHECK(json_of(fetch(client, "/api/v1/runs"))["items"].size() == 1);
}

TEST_CASE("a run whose snapshot is not here yet is not found, and taken once it is") {
  Yard yard;
  http::Client client = yard.over_socket();
  const std::string code = "print('hello')";
  snapshot::Tree tree;
  tree.entries.push_back({.path = "train.py", .size = code.size(), .digest = sha256(code)});
  const std::string text = snapshot::encode(tree);
  const Digest id = sha256(text);
  const http::Response early =
      send(client, post, "/api/v1/runs", spec_body("odd-wren-4", "true", id.hex()));
  CHECK(early.status == 404);
  CHECK(json_of(early)["error"]["message"].get<std::string>().find("snapshot") !=
        std::string::npos);
  const auto pack = [](const Digest& digest, std::string_view bytes) {
    std::string head(reinterpret_cast<const char*>(digest.bytes.data()), 32);
    for (int i = 0; i < 8; ++i) head += static_cast<char>(bytes.size() >> (8 * i));
    return head.append(bytes);
  };
  const std::string wanted = wire::dump({{"digests", Json::array({id.hex(), sha256(code).hex()})}});
  CHECK(json_of(send(client, post, "/api/v1/blobs/missing", wanted))["missing"].size() == 2);
  const std::string bad = pack(sha256("other"), "something");
  const Json kept = json_of(send(client, post, "/api/v1/blobs", pack(id, text) + bad));
  CHECK(kept["kept"] == 1);
  CHECK(kept["bad"][0] == sha256("other").hex());
  CHECK(send(client, post, "/api/v1/runs", spec_body("odd-wren-4", "true", id.hex())).status ==
        404);
  CHECK(send(client, post, "/api/v1/blobs", pack(sha256(code), code).substr(0, 45)).status == 400);
  CHECK(send(client, post, "/api/v1/blobs", pack(sha256(code), code)).status == 200);
  CHECK(json_of(send(client, post, "/api/v1/blobs/missing", wanted))["missing"].empty());
  CHECK(send(client, post, "/api/v1/runs", spec_body("odd-wren-4", "true", id.hex())).status ==
        201);

  CHECK(fetch(client, "/api/v1/runs/odd/snapshot").body == text);
  CHECK(fetch(client, "/api/v1/runs/odd/files/snapshot/train.py").body == code);
  CHECK(fetch(client, "/api/v1/blobs/" + sha256(code).hex()).body == code);
  CHECK(send(client, head, "/api/v1/blobs/" + sha256(code).hex()).status == 200);
  CHECK(send(client, head, "/api/v1/blobs/" + sha256("none").hex()).status == 404);
}

TEST_CASE("lists come in pages that join without gap or repetition") {
  Yard yard;
  for (int i = 0; i < 7; ++i) yard.submit("run-" + std::to_string(i));
  http::Client client = yard.over_socket();
  std::vector<std::string> seen;
  std::string cursor;
  int pages = 0;
  do {
    const Json page = json_of(
        fetch(client, "/api/v1/runs?limit=3" + (cursor.empty() ? "" : "&cursor=" + cursor)));
    for (const Json& run : page["items"]) seen.push_back(run["id"]);
    cursor = page["next"].is_null() ? "" : page["next"].get<std::string>();
    ++pages;
  } while (!cursor.empty());
  CHECK(pages == 3);
  CHECK(seen ==
        std::vector<std::string>{"run-6", "run-5", "run-4", "run-3", "run-2", "run-1", "run-0"});
  yard.token_of("rita", Role::reader);
  const Json first = json_of(fetch(client, "/api/v1/users?limit=1"));
  const Json second =
      json_of(fetch(client, "/api/v1/users?limit=1&cursor=" + first["next"].get<std::string>()));
  CHECK(first["items"].size() == 1);
  CHECK(second["items"].size() == 1);
  CHECK(first["items"] != second["items"]);
  CHECK(second["next"].is_null());
}

TEST_CASE("one sees and makes one's own tokens, an admin everybody's") {
  Yard yard;
  const std::string rita = yard.token_of("rita", Role::reader);
  yard.token_of("sam", Role::submitter);
  http::Client client = yard.over_tcp(rita);
  const Json listed = json_of(fetch(client, "/api/v1/tokens"))["items"];
  REQUIRE(listed.size() == 1);
  CHECK(listed[0]["user"] == "rita");
  CHECK(listed.dump().find(rita) == std::string::npos);
  CHECK(send(client, post, "/api/v1/tokens", R"({"user":"sam"})").status == 403);
  CHECK(send(client, post, "/api/v1/tokens", "{}").status == 201);

  http::Client admin = yard.over_socket();
  const Json all = json_of(fetch(admin, "/api/v1/tokens"))["items"];
  CHECK(all.size() == 3);
  const auto sams = std::ranges::find_if(all, [](const Json& t) { return t["user"] == "sam"; });
  REQUIRE(sams != all.end());
  const std::string url = "/api/v1/tokens/" + (*sams)["id"].dump();
  CHECK(send(client, del, url).status == 404);
  CHECK(send(admin, del, url).status == 204);
}

TEST_CASE("the owner's token comes over the socket alone, and the same one again") {
  Yard yard;
  http::Client socket = yard.over_socket();
  const Json shown = json_of(fetch(socket, "/api/v1/server?token=1"));
  const std::string token = shown["token"];
  CHECK(json_of(fetch(socket, "/api/v1/server?token=1"))["token"] == token);
  CHECK_FALSE(json_of(fetch(socket, "/api/v1/server")).contains("token"));
  http::Client tcp = yard.over_tcp(token);
  CHECK(fetch(tcp, "/api/v1/runs").status == 200);
  CHECK(fetch(tcp, "/api/v1/server?token=1").status == 403);
}

TEST_CASE("a submitter cancels their own runs only") {
  Yard yard;
  const RunId run = yard.submit("calm-finch-2");
  http::Client sam = yard.over_tcp(yard.token_of("sam", Role::submitter));
  http::Client owner = yard.over_tcp(yard.token_of("owner", Role::submitter));
  const std::string url = "/api/v1/runs/calm-finch-2/cancel";
  CHECK(send(sam, post, url).status == 403);
  const http::Response canceled = send(owner, post, url);
  CHECK(canceled.status == 200);
  CHECK(json_of(canceled)["status"] == "Canceled");
}

TEST_CASE("openapi has every route") {
  const std::vector<RouteRow> routes = all_routes();
  const Json json = openapi(routes);
  size_t operations = 0;
  for (const auto& [path, methods] : json["paths"].items()) operations += methods.size();
  CHECK(operations == routes.size());
  CHECK(json["paths"]["/health"]["get"]["security"].empty());
  const Json& parameters = json["paths"]["/api/v1/runs/{id}/files/{path}"]["get"]["parameters"];
  CHECK(parameters.size() == 9);
  CHECK(
      parameters[1] ==
      Json{{"name", "path"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
}

TEST_CASE("no two rows are the same route") {
  std::set<std::pair<http::Method, std::string_view>> seen;
  for (const RouteRow& row : all_routes()) {
    CAPTURE(row.pattern);
    CHECK(seen.emplace(row.method, row.pattern).second);
    CHECK((row.act == nullptr) != (row.upload == nullptr));
    CHECK(row.says.ends_with('.'));
  }
}

}  // namespace
}  // namespace trainyard::api
