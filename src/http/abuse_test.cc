// Clients that want more than their share: of memory, of connections, of workers.
#include <latch>

#include "http/test_server.h"

namespace trainyard::http {

namespace {

// POST /: takes 64 MB from who has the token "good", and says how much came.
void add_guarded_route(TestServer& test) {
  Route route;
  route.method = Method::post;
  route.pattern = "/";
  route.body_max = 64 << 20;
  route.admit = [](const Request& request) -> std::optional<Response> {
    if (request.header("authorization") == "good") return std::nullopt;
    return Response::text("no", 401);
  };
  route.handler = [](const Request& request) {
    return Response::text(std::to_string(request.body.size()) + " bytes.");
  };
  test.router.add(std::move(route));
}

std::string head(std::string_view headers) {
  return "POST / HTTP/1.1\r\n" + std::string(headers) + "\r\n";
}

std::string ask(RawClient& client, std::string_view path = "/") {
  client.send("GET " + std::string(path) + " HTTP/1.1\r\n\r\n");
  return client.read(".");
}

Response hello_at_once(const Request&) { return Response::text("hello."); }

}  // namespace

TEST_CASE("a body is read only when its sender was admitted by the headers") {
  TestServer test;
  add_guarded_route(test);
  test.start();
  for (const char* length : {"Content-Length: 67108864\r\n", "Transfer-Encoding: chunked\r\n"}) {
    RawClient stranger(test.server->port());
    stranger.send(head(std::string(length) + "Expect: 100-continue\r\n"));
    const std::string answer = stranger.read("\r\n\r\nno");
    CHECK(answer.starts_with("HTTP/1.1 401 "));
    CHECK(answer.find("connection: close\r\n") != std::string::npos);
  }
  RawClient known(test.server->port());
  known.send(head("Authorization: good\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n"));
  CHECK(known.read("\r\n\r\n").starts_with("HTTP/1.1 100 "));
  known.send(std::string(100'000, 'x'));
  CHECK(known.read(".").find("100000 bytes.") != std::string::npos);
  // Its connection goes on, with a body that comes in pieces and one that comes with the headers.
  known.send(head("Authorization: good\r\nTransfer-Encoding: chunked\r\n"));
  known.send("186a0\r\n" + std::string(100'000, 'y') + "\r\n0\r\n\r\n");
  CHECK(known.read("bytes.").find("100000 bytes.") != std::string::npos);
  known.send(head("Authorization: good\r\nContent-Length: 3\r\n") + "abc");
  CHECK(known.read("bytes.").find("\r\n3 bytes.") != std::string::npos);
}

TEST_CASE("an admission that has to wait is asked again, and the body is read then") {
  TestServer test;
  std::atomic<bool> open{false};
  Route route;
  route.method = Method::post;
  route.pattern = "/";
  route.admit = [&](const Request& request) -> std::optional<Response> {
    if (open) return std::nullopt;
    return Response::parked("open", request.arrived + seconds(20));
  };
  route.handler = [](const Request& request) { return Response::text(request.body + "."); };
  test.router.add(std::move(route));
  test.start();
  RawClient early(test.server->port());
  early.send(head("Content-Length: 5\r\n"));
  early.send("he");
  CHECK(eventually([&] { return test.server->counts().parked == 1; }));
  open = true;
  test.server->notify("open");
  early.send("llo");
  CHECK(early.read(".").ends_with("hello."));
}

TEST_CASE("bodies beyond the memory for them are answered 503, and it comes back") {
  TestServer test;
  add_guarded_route(test);
  test.options.body_memory_max = 1 << 20;
  test.start();
  const std::string large = head("Authorization: good\r\nContent-Length: 700000\r\n");
  auto first = std::make_unique<RawClient>(test.server->port());
  first->send(head("Authorization: good\r\nExpect: 100-continue\r\nContent-Length: 700000\r\n"));
  CHECK(first->read("\r\n\r\n").starts_with("HTTP/1.1 100 "));  // Its memory is reserved.
  first->send("some");
  for (const std::string& request :
       {large, head("Authorization: good\r\nTransfer-Encoding: chunked\r\n") + "aae60\r\n"}) {
    const auto refused = [&] {
      RawClient second(test.server->port());
      second.send(request);
      second.send(std::string(700'000, 'x'));
      const std::string answer = second.read("\r\n\r\n");
      return answer.starts_with("HTTP/1.1 503 ") &&
             answer.find("retry-after: 1\r\n") != std::string::npos;
    };
    CHECK(eventually(refused));
  }
  first.reset();
  CHECK(eventually([&] { return test.server->counts().connections_open == 0; }));
  for (int i = 0; i < 3; ++i) {
    // The memory of the one before is free a moment after its answer.
    const auto taken = [&] {
      RawClient later(test.server->port());
      later.send(large);
      later.send(std::string(700'000, 'x'));
      return later.read("bytes.").find("700000 bytes.") != std::string::npos;
    };
    CHECK(eventually(taken));
  }
}

TEST_CASE("TCP leaves connections to the Unix socket and to reserved routes") {
  TestServer test;
  test.on(Method::get, "/", hello_at_once);
  Route health;
  health.pattern = "/health";
  health.handler = hello_at_once;
  health.reserved = true;
  test.router.add(std::move(health));
  test.options.connections_max = 16;  // 4 of them reserved, 1 of these for reserved routes.
  test.options.connections_per_address_max = 100;
  test.start();
  std::vector<std::unique_ptr<RawClient>> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(std::make_unique<RawClient>(test.server->port()));
    CHECK(ask(*all.back()).ends_with("hello."));
  }
  {
    RawClient thirteenth(test.server->port());
    CHECK(ask(thirteenth, "/health").ends_with("hello."));
    CHECK(ask(thirteenth).starts_with("HTTP/1.1 503 "));
    CHECK(thirteenth.read().empty());
  }
  CHECK(eventually([&] { return test.server->counts().connections_open == 12; }));
  RawClient again(test.server->port());
  CHECK(ask(again, "/health").ends_with("hello."));
  CHECK(RawClient(test.server->port()).read().empty());
  for (int i = 0; i < 3; ++i) {
    RawClient on_unix(test);
    CHECK(ask(on_unix).ends_with("hello."));
  }
}

TEST_CASE("one address has a share of the connections, and gets it back") {
  TestServer test;
  test.on(Method::get, "/", hello_at_once);
  test.options.connections_per_address_max = 2;
  test.start();
  RawClient first(test.server->port());
  auto second = std::make_unique<RawClient>(test.server->port());
  CHECK(ask(first).ends_with("hello."));
  CHECK(ask(*second).ends_with("hello."));
  CHECK(RawClient(test.server->port()).read().empty());
  CHECK(test.server->counts().refused == 1);
  RawClient on_unix(test);
  CHECK(ask(on_unix).ends_with("hello."));
  second.reset();
  CHECK(eventually([&] { return test.server->counts().connections_open == 2; }));
  RawClient third(test.server->port());
  CHECK(ask(third).ends_with("hello."));
}

TEST_CASE("the Unix socket is served while TCP's requests hold every worker and fill the queue") {
  TestServer test;
  std::latch release(1);
  test.on(Method::get, "/slow", [&](const Request&) {
    release.wait();
    return Response::text("slow.");
  });
  test.on(Method::get, "/", hello_at_once);
  test.options.workers = 2;
  test.options.queue_max = 3;
  test.start();
  std::vector<std::unique_ptr<RawClient>> slow;
  for (uint64_t i = 1; i <= 5; ++i) {
    slow.push_back(std::make_unique<RawClient>(test.server->port()));
    slow.back()->send("GET /slow HTTP/1.1\r\n\r\n");
    CHECK(eventually([&] { return test.server->counts().requests == i; }));
  }
  for (int i = 0; i < 20; ++i) {
    RawClient on_unix(test);
    CHECK(ask(on_unix).ends_with("hello."));
  }
  release.count_down();
  for (const auto& client : slow) CHECK(client->read(".").ends_with("slow."));
}

TEST_CASE("a handler sees that its client has left, and nobody else's") {
  TestServer test;
  std::atomic<bool> started{false};
  std::atomic<bool> stopped{false};
  test.on(Method::get, "/", [&](const Request& request) {
    CHECK(!request.client_left());
    started = true;
    stopped = eventually(request.client_left);
    return Response::text("");
  });
  test.start();
  for (const bool tcp : {false, true}) {
    started = stopped = false;
    auto client =
        tcp ? std::make_unique<RawClient>(test.server->port()) : std::make_unique<RawClient>(test);
    client->send("GET / HTTP/1.1\r\n\r\n");
    CHECK(eventually([&] { return started.load(); }));
    client->close();
    CHECK(eventually([&] { return stopped.load(); }));
  }
}

TEST_CASE("a request whose client left while it waited long is not handled") {
  TestServer test;
  std::latch release(1);
  std::atomic<int> handled{0};
  test.on(Method::get, "/slow", [&](const Request&) {
    release.wait();
    return Response::text("slow.");
  });
  test.on(Method::get, "/", [&](const Request&) {
    ++handled;
    return Response::text("hello.");
  });
  test.options.workers = 1;
  test.start();
  RawClient slow(test.server->port());
  slow.send("GET /slow HTTP/1.1\r\n\r\n");
  CHECK(eventually([&] { return test.server->counts().requests == 1; }));
  RawClient leaves(test.server->port());
  RawClient stays(test.server->port());
  for (RawClient* client : {&leaves, &stays}) client->send("GET / HTTP/1.1\r\n\r\n");
  CHECK(eventually([&] { return test.server->counts().requests == 3; }));
  leaves.close();
  const auto start = steady_clock::now();
  CHECK(eventually([&] { return elapsed_since(start) > milliseconds(1100); }));
  release.count_down();
  CHECK(stays.read(".").ends_with("hello."));
  CHECK(eventually([&] { return test.server->counts().connections_open == 2; }));
  CHECK(handled == 1);
}

}  // namespace trainyard::http
