#include "container/engine_api.h"

#include <doctest/doctest.h>

#include "container/test_engine.h"
#include "http/test_server.h"

namespace trainyard::container {
namespace {

using http::Request;
using http::Response;

// Says what an engine would.
struct Fake : http::TestServer {
  explicit Fake(const http::Headers& headers = {}) {
    on(http::Method::get, "/_ping", [headers](const Request&) {
      Response answer = Response::text("OK");
      answer.headers = headers;
      return answer;
    });
  }
  std::string socket() const { return options.unix_socket; }
};

}  // namespace

TEST_CASE("an engine is looked for where it was said to be") {
  Fake fake(http::Headers{{"api-version", "1.41"}});
  fake.start();
  CHECK(find_engine(fake.socket(), {}).value().socket == fake.socket());
  CHECK(find_engine("", {{"DOCKER_HOST", "unix://" + fake.socket()}}).value().name() == "docker");
  CHECK(find_engine("", {{"CONTAINER_HOST", "unix://" + fake.socket()}}).value().api == "1.40");
  const auto remote = find_engine("", {{"DOCKER_HOST", "tcp://elsewhere:2375"}});
  CHECK(remote.error().kind == ErrorKind::invalid);
  const auto none = find_engine("", {{"DOCKER_HOST", "unix:///no/such/sock"}});
  CHECK(none.error().kind == ErrorKind::unavailable);
  CHECK(none.error().message.find("/no/such/sock") != std::string::npos);
  CHECK(none.error().hint.find("systemctl start docker") != std::string::npos);
}

TEST_CASE("an engine of the person's own is found in the person's own folder") {
  Fake fake({{"libpod-api-version", "4.3.1"}, {"api-version", "1.41"}});
  const fs::path folder = fake.dir.path() / "podman";
  REQUIRE(make_dirs(folder));
  fake.options.unix_socket = folder / "podman.sock";
  fake.start();
  const auto found = find_engine("", {{"XDG_RUNTIME_DIR", fake.dir.path().string()}});
  REQUIRE(found.has_value());
  CHECK(found->name() == "podman");
  CHECK(found->rootless == (::geteuid() != 0));
}

TEST_CASE("an engine of another kind than the named one is not taken") {
  Fake fake(http::Headers{{"api-version", "1.41"}});
  fake.start();
  const std::string host = "unix://" + fake.socket();
  CHECK(find_engine("", {{"DOCKER_HOST", host}, {kRuntimeVariable, "docker"}}));
  CHECK(find_engine("", {{"DOCKER_HOST", host}, {kRuntimeVariable, "bubblewrap"}}));
  const auto none = find_engine("", {{"DOCKER_HOST", host}, {kRuntimeVariable, "podman"}});
  REQUIRE(!none);
  CHECK(none.error().kind == ErrorKind::unavailable);
  CHECK(none.error().message == "TRAINYARD_CONTAINER_RUNTIME=podman, and no podman answers here (" +
                                    fake.socket() + " is docker): start podman");
}

TEST_CASE("engines that have given up the old version are asked in the new one") {
  for (const auto& [has, spoken] : std::map<std::string, std::string>{
           {"1.40", "1.40"}, {"1.43", "1.40"}, {"1.44", "1.44"}, {"1.52", "1.44"}, {"x", "1.40"}}) {
    Fake fake(http::Headers{{"api-version", has}});
    fake.start();
    CHECK(find_engine(fake.socket(), {}).value().api == spoken);
  }
}

TEST_CASE("what an engine refuses is told in its own words") {
  Fake fake;
  fake.on(http::Method::get, "/v1.40/images/{name}/json",
          [](const Request&) { return Response::json(R"({"message":"no such image: x"})", 404); });
  fake.on(http::Method::post, "/v1.40/images/create", [](const Request&) {
    return Response::text("{\"status\":\"Pulling\"}\r\n{\"error\":\"manifest unknown\"}");
  });
  fake.start();
  EngineApi api({.socket = fake.socket()});
  CHECK(api.image("x").error().kind == ErrorKind::not_found);
  CHECK(api.image("x").error().message == "find the image: no such image: x");
  // Half-way: after a status of 200.
  std::string heard;
  const auto pulled = api.pull("x:1", {}, [&](const EngineApi::Progress& progress) -> Status {
    heard += progress.text;
    return {};
  });
  CHECK(pulled.error().kind == ErrorKind::not_found);
  CHECK(pulled.error().message == "get the image x:1: manifest unknown");
  CHECK(heard == "Pulling");
}

TEST_CASE("a name is taken apart as registries have it, and a password goes along encoded") {
  Fake fake;
  std::vector<std::string> asked;
  fake.on(http::Method::post, "/v1.40/images/create", [&](const Request& request) {
    asked.push_back(std::string(request.query_or("fromImage", "")) + " " +
                    std::string(request.query_or("tag", "")));
    asked.emplace_back(request.header("x-registry-auth"));
    return Response::text("");
  });
  fake.start();
  EngineApi api({.socket = fake.socket()});
  REQUIRE(api.pull("ubuntu", {}, {}));
  REQUIRE(api.pull("host:5000/a/b", {}, {}));
  REQUIRE(api.pull("host:5000/a/b:22", {}, {}));
  REQUIRE(api.pull("a@sha256:12", {.server = "s", .username = "u", .password = "?>~"}, {}));
  CHECK(asked == std::vector<std::string>{
                     "ubuntu latest", "", "host:5000/a/b latest", "", "host:5000/a/b 22", "",
                     "a sha256:12",
                     "eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6Ij8-fiIsInNlcnZlcmFkZHJlc3MiOiJzIn0="});
}

}  // namespace trainyard::container
