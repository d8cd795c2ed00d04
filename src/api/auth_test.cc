#include "api/auth.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "api/test_yard.h"

namespace trainyard::api {
namespace {

TEST_CASE("every role may do what its route needs and no more") {
  const AttemptId own{RunId{"run-a"}, 1};
  const store::Identity reader{"r", Role::reader, {}};
  const store::Identity submitter{"s", Role::submitter, {}};
  const store::Identity admin{"a", Role::admin, {}};
  const store::Identity attempt{"s", Role::submitter, own};
  struct Row {
    Needs needs;
    Attempts attempts;
    bool unix_socket;
    bool may[4];  // reader, submitter, admin, attempt
  };
  const Row rows[] = {
      {Needs::nothing, Attempts::refused, false, {true, true, true, true}},
      {Needs::reader, Attempts::refused, false, {true, true, true, false}},
      {Needs::reader, Attempts::allowed, false, {true, true, true, true}},
      {Needs::reader, Attempts::own_workspace, false, {true, true, true, true}},
      {Needs::submitter, Attempts::refused, false, {false, true, true, false}},
      {Needs::submitter, Attempts::allowed, false, {false, true, true, true}},
      {Needs::admin, Attempts::refused, false, {false, false, true, false}},
      {Needs::local_admin, Attempts::refused, false, {false, false, false, false}},
      {Needs::local_admin, Attempts::refused, true, {false, false, true, false}},
      {Needs::attempt, Attempts::allowed, true, {false, false, false, true}},
  };
  const store::Identity* who[] = {&reader, &submitter, &admin, &attempt};
  for (const Row& row : rows) {
    for (size_t i = 0; i < 4; ++i) {
      CAPTURE(static_cast<int>(row.needs));
      CAPTURE(i);
      CHECK(check_may(*who[i], row.needs, row.attempts, row.unix_socket, own).has_value() ==
            row.may[i]);
    }
  }
  const AttemptId next{RunId{"run-a"}, 2};
  const AttemptId other{RunId{"run-b"}, 1};
  CHECK_FALSE(check_may(attempt, Needs::attempt, Attempts::allowed, true, next).has_value());
  CHECK_FALSE(check_may(attempt, Needs::attempt, Attempts::allowed, true, other).has_value());
  CHECK_FALSE(check_may(attempt, Needs::attempt, Attempts::allowed, true, {}).has_value());
}

TEST_CASE("on loopback the Host header must name us") {
  struct Row {
    const char* host;
    bool good;
  };
  const Row rows[] = {
      {"127.0.0.1:8470", true},
      {"127.0.0.1", true},
      {"localhost:1", true},
      {"LocalHost", true},
      {"[::1]:99", true},
      {"lab.example:443", true},
      {"evil.example", false},
      {"127.0.0.1.evil.com", false},
      {"", false},
      {"localhost.evil", false},
      {"[::2]", false},
      {"[", false},
  };
  Facts facts;
  facts.hosts.push_back("lab.example");
  for (const Row& row : rows) {
    CAPTURE(row.host);
    http::Request request;
    request.headers["host"] = row.host;
    CHECK(check_host(facts, request).has_value() == row.good);
    // Of whom has a token it says nothing: a node knows us by its login machine's name.
    request.headers["authorization"] = "Basic x";
    CHECK(check_host(facts, request).has_value() == row.good);
    request.headers["authorization"] = "Bearer tya_x";
    CHECK(check_host(facts, request).has_value());
    request.headers.erase("authorization");
    request.peer.unix_socket = true;
    CHECK(check_host(facts, request).has_value());
  }
  facts.check_host = false;
  http::Request request;
  request.headers["host"] = "anything";
  CHECK(check_host(facts, request).has_value());
}

TEST_CASE("a token is needed over TCP and none over the socket") {
  Yard yard;
  const std::string reader = yard.token_of("rita", Role::reader);
  http::Client socket = yard.over_socket();
  http::Client nobody = yard.over_tcp();
  CHECK(fetch(socket, "/api/v1/runs").status == 200);
  const http::Response refused = fetch(nobody, "/api/v1/runs");
  CHECK(refused.status == 401);
  CHECK(refused.headers.at("www-authenticate") == "Bearer");
  CHECK(json_of(refused)["error"]["kind"] == "denied");
  for (const char* open : {"/health", "/version", "/"}) CHECK(fetch(nobody, open).status == 200);
  CHECK(fetch(nobody, "/metrics").status == 401);

  http::Client wrong = yard.over_tcp("tyu_wrong");
  CHECK(fetch(wrong, "/api/v1/runs").status == 401);
  const http::Headers basic = {{"authorization", "Basic eDp5"}};
  CHECK(send(socket, http::Method::get, "/api/v1/runs", {}, basic).status == 401);
  http::Client rita = yard.over_tcp(reader);
  CHECK(fetch(rita, "/api/v1/runs").status == 200);
  // A token counts over the socket too: it makes one less, not more.
  http::Client rita_here = yard.over_socket(reader);
  CHECK(send(rita_here, http::Method::post, "/api/v1/users", R"({"name":"x"})").status == 403);
}

// The client names the host it connects to; a page made to point at us names its own.
std::string status_line_for(uint16_t port, const std::string& host) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string request = "GET /version HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  REQUIRE(write_all(socket.get(), request, "request").has_value());
  char answer[15] = {};
  REQUIRE(::recv(socket.get(), answer, sizeof answer - 1, MSG_WAITALL) > 0);
  return answer;
}

TEST_CASE("a request over TCP that names another host is refused") {
  Yard yard;
  CHECK(status_line_for(yard.server->port(), "127.0.0.1:1").starts_with("HTTP/1.1 200"));
  CHECK(status_line_for(yard.server->port(), "evil.example").starts_with("HTTP/1.1 403"));
}

}  // namespace
}  // namespace trainyard::api
