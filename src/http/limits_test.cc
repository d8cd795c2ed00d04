#include <latch>

#include "http/test_server.h"

namespace trainyard::http {

namespace {

Response hello_briefly(const Request&) { return Response::text("hello"); }

}  // namespace

TEST_CASE("a client whose headers take too long is cut, however it dawdles") {
  TestServer test;
  test.on(Method::get, "/", hello_briefly);
  test.options.header_deadline = seconds(1);
  test.start();
  RawClient silent(test);
  RawClient slow(test);
  silent.send("GET / HT");
  slow.send("GET / HTTP/1.1\r\nX: ");
  const auto start = steady_clock::now();
  // A byte each 50 ms: never silent for long, and never done.
  std::string answer;
  while (answer.empty() && elapsed_since(start) < milliseconds(10'000)) {
    slow.send("x");
    answer = slow.read("\r\n\r\n", milliseconds(50));
    if (answer == "[no end]") answer.clear();
  }
  CHECK(answer.starts_with("HTTP/1.1 408 "));
  CHECK(elapsed_since(start) >= milliseconds(900));
  CHECK(elapsed_since(start) < milliseconds(4000));
  CHECK(silent.read().starts_with("HTTP/1.1 408 "));
  CHECK(test.server->counts().refused == 2);
}

TEST_CASE("a client that falls silent in its body is cut") {
  TestServer test;
  std::atomic<bool> called{false};
  test.on(Method::post, "/", [&](const Request&) {
    called = true;
    return Response::text("");
  });
  test.options.silence_deadline = seconds(1);
  test.start();
  RawClient raw(test);
  raw.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  const auto start = steady_clock::now();
  CHECK(raw.read().starts_with("HTTP/1.1 408 "));
  CHECK(elapsed_since(start) >= milliseconds(900));
  CHECK(elapsed_since(start) < milliseconds(5000));
  CHECK_FALSE(called);
}

TEST_CASE("a body that trickles is cut when the whole request takes too long") {
  TestServer test;
  test.on(Method::post, "/", hello_briefly);
  test.options.silence_deadline = seconds(30);
  test.options.request_deadline = seconds(1);
  test.start();
  RawClient raw(test);
  raw.send("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  const auto start = steady_clock::now();
  std::string answer;
  while (answer.empty() && elapsed_since(start) < milliseconds(10'000)) {
    raw.send("x");
    answer = raw.read("\r\n\r\n", milliseconds(50));
    if (answer == "[no end]") answer.clear();
  }
  CHECK(answer.starts_with("HTTP/1.1 408 "));
  CHECK(elapsed_since(start) < milliseconds(5000));
}

TEST_CASE("a connection that idles is closed without a word") {
  TestServer test;
  test.on(Method::get, "/", hello_briefly);
  test.options.idle_deadline = seconds(1);
  test.start();
  RawClient never(test);
  RawClient once(test);
  once.send("GET / HTTP/1.1\r\n\r\n");
  CHECK(once.read("hello").ends_with("hello"));
  CHECK(never.read().empty());
  CHECK(once.read().empty());
  CHECK(eventually([&] { return test.server->counts().connections_open == 0; }));
}

TEST_CASE("a client that does not read its answer is cut") {
  TestServer test;
  test.on(Method::get, "/",
          [](const Request&) { return Response::text(std::string(8 << 20, 'x')); });
  test.options.silence_deadline = seconds(1);
  test.start();
  RawClient raw(test);
  raw.send("GET / HTTP/1.1\r\n\r\n");
  CHECK(eventually([&] { return test.server->counts().refused == 1; }));
  CHECK(raw.read().size() < (8u << 20));
}

TEST_CASE("a slow reader that goes on reading gets all of its answer") {
  TestServer test;
  const size_t size = 4 << 20;
  test.on(Method::get, "/", [=](const Request&) { return Response::text(std::string(size, 'x')); });
  test.options.silence_deadline = seconds(1);
  test.start();
  RawClient raw(test);
  raw.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
  size_t got = 0;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::recv(raw.fd(), buffer, sizeof(buffer), 0);
    if (n <= 0) break;
    got += static_cast<size_t>(n);
    ::poll(nullptr, 0, 25);
  }
  CHECK(got > size);
}

TEST_CASE("a body of 1 GB is refused at once, unread") {
  TestServer test;
  test.on(Method::post, "/", hello_briefly);
  test.start();
  RawClient raw(test);
  const auto start = steady_clock::now();
  raw.send("POST / HTTP/1.1\r\nContent-Length: 1073741824\r\n\r\n");
  CHECK(raw.read("\r\n\r\n").starts_with("HTTP/1.1 413 "));
  CHECK(elapsed_since(start) < milliseconds(1000));
  // A client that sends on and on sees the answer too, and not the reset of its connection.
  for (const Address& address : {test.on_unix(), test.on_tcp()}) {
    Client client(address, "");
    ClientRequest request;
    request.method = Method::post;
    request.target = "/";
    request.source_size = 1 << 30;
    uint64_t used = 0;
    request.source = [&](char*, size_t room) -> Result<size_t> {
      used += room;
      return room;
    };
    CHECK(client.send(request).value().status == 413);
    CHECK(used < (64u << 20));
  }
  RawClient chunked(test);
  chunked.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n");
  const std::string piece(65536, 'x');
  std::string answer;
  for (int i = 0; i < 40 && chunked.send(piece); ++i) {
  }
  CHECK(chunked.read("\r\n\r\n").starts_with("HTTP/1.1 413 "));
}

TEST_CASE("connections over the cap are closed at once") {
  TestServer test;
  test.on(Method::get, "/", hello_briefly);
  test.options.connections_max = 3;
  test.start();
  std::vector<std::unique_ptr<RawClient>> kept;
  for (int i = 0; i < 3; ++i) {
    kept.push_back(std::make_unique<RawClient>(test));
    kept.back()->send("GET / HTTP/1.1\r\n\r\n");
    CHECK(kept.back()->read("hello").ends_with("hello"));
  }
  RawClient fourth(test);
  CHECK(fourth.read().empty());
  CHECK(test.server->counts().refused == 1);
  kept.pop_back();
  CHECK(eventually([&] { return test.server->counts().connections_open == 2; }));
  RawClient fifth(test);
  fifth.send("GET / HTTP/1.1\r\n\r\n");
  CHECK(fifth.read("hello").ends_with("hello"));
}

TEST_CASE("more requests than may wait are answered 503, and those that wait are served") {
  TestServer test;
  std::latch release(1);
  std::atomic<int> running{0};
  test.on(Method::get, "/", [&](const Request&) {
    ++running;
    release.wait();
    return Response::text("hello");
  });
  test.options.workers = 2;
  test.options.queue_max = 3;
  test.start();
  std::vector<std::unique_ptr<RawClient>> clients;
  const auto ask = [&] {
    clients.push_back(std::make_unique<RawClient>(test.server->port()));
    clients.back()->send("GET / HTTP/1.1\r\n\r\n");
  };
  ask();
  ask();
  CHECK(eventually([&] { return running == 2; }));
  for (int i = 0; i < 3; ++i) ask();
  CHECK(eventually([&] { return test.server->counts().requests == 5; }));
  ask();
  const std::string busy = clients.back()->read("waiting");
  CHECK(busy.starts_with("HTTP/1.1 503 "));
  CHECK(busy.find("retry-after: 1\r\n") != std::string::npos);
  release.count_down();
  for (int i = 0; i < 5; ++i)
    CHECK(clients[static_cast<size_t>(i)]->read("hello").ends_with("hello"));
  // The one refused keeps its connection.
  clients.back()->send("GET / HTTP/1.1\r\n\r\n");
  CHECK(clients.back()->read("hello").ends_with("hello"));
}

}  // namespace trainyard::http
