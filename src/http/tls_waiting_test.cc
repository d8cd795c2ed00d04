// Long waits, interruptions and the end, over TLS.
#include <thread>

#include "http/test_tls.h"

namespace trainyard::http {

TEST_CASE("over TLS a parked request is woken, and a client that leaves is forgotten") {
  TlsServer test;
  std::atomic<bool> ready{false};
  test.on(Method::get, "/wait", when_ready(test, ready));
  test.on(Method::get, "/", hello);
  test.start();
  RawTls raw(test.server->port());
  {
    const RawTls leaves(test.server->port());
    leaves.send("GET /wait HTTP/1.1\r\n\r\n");
    raw.send("GET /wait HTTP/1.1\r\n\r\n");
    REQUIRE(eventually([&] { return test.server->counts().parked == 2; }));
    leaves.session->say_goodbye();
    CHECK(eventually([&] { return test.server->counts().connections_open == 1; }));
    CHECK(test.server->counts().parked == 1);
  }
  // One that says nothing when it leaves, and one that talks on while it waits.
  {
    RawTls(test.server->port()).send("GET /wait HTTP/1.1\r\n\r\n");
  }
  raw.send("GET / HTTP/1.1\r\n\r\n");
  CHECK(eventually([&] {
    return test.server->counts().connections_open == 1 && test.server->counts().parked == 1;
  }));
  ready = true;
  test.server->notify("ready");
  CHECK(raw.read("hello").find("ready.") != std::string::npos);
}

TEST_CASE("what is sent behind a parked request over TLS has its limit and is answered after it") {
  TlsServer test;
  std::atomic<bool> ready{false};
  std::atomic<int> looks{0};
  const Handler look = when_ready(test, ready);
  test.on(Method::get, "/wait", [&](const Request& request) {
    ++looks;
    return look(request);
  });
  test.on(Method::post, "/", hello);
  test.on(Method::get, "/", hello);
  test.start();
  RawTls raw(test.server->port());
  raw.send("GET /wait HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().parked == 1; }));
  // 200 records of a kilobyte. Each that is read ahead makes the handler look once more; those
  // beyond 64 of them stay where they are.
  raw.send("POST / HTTP/1.1\r\ncontent-length: 200000\r\n\r\n");
  for (int i = 0; i < 200; ++i) raw.send(std::string(1000, 'x'));
  REQUIRE(eventually([&] { return looks >= 64 && test.server->counts().parked == 1; }));
  Client other = test.tls_client();
  for (int i = 0; i < 200; ++i) REQUIRE(get(other, "/").has_value());
  CHECK(looks < 80);
  ready = true;
  test.server->notify("ready");
  CHECK(raw.read("hello").find("ready.") != std::string::npos);
}

TEST_CASE("a client over TLS is interrupted and timed out like any other") {
  TlsServer test;
  std::atomic<bool> ready{false};
  test.on(Method::get, "/wait", when_ready(test, ready));
  test.start();
  Client client = test.tls_client();
  std::jthread stopper([&] {
    eventually([&] { return test.server->counts().parked == 1; });
    client.interrupt();
  });
  const auto stopped = get(client, "/wait");
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().kind == ErrorKind::cancelled);
  stopper.join();

  ClientRequest request;
  request.target = "/wait";
  request.timeout = milliseconds(100);
  const auto late = client.send(request);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().kind == ErrorKind::unavailable);

  // Somebody who takes connections and never speaks: the handshake waits.
  const Fd mute = listen_tcp("127.0.0.1", 0).value();
  Client waiting({.host = "127.0.0.1", .port = port_of(mute.get()).value(), .tls = true}, "");
  const auto start = steady_clock::now();
  CHECK(waiting.send(request).error().kind == ErrorKind::unavailable);
  CHECK(elapsed_since(start) < milliseconds(5000));
  waiting.interrupt();
  CHECK(waiting.connect().error().kind == ErrorKind::cancelled);
}

TEST_CASE("stopping ends TLS connections that idle, wait or shake hands") {
  TlsServer test;
  std::atomic<bool> ready{false};
  test.on(Method::get, "/wait", when_ready(test, ready));
  test.start();
  const Fd silent = connect_tcp(test.server->port());
  const RawTls idle(test.server->port());
  const RawTls waits(test.server->port());
  waits.send("GET /wait HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().parked == 1; }));
  const auto start = steady_clock::now();
  test.server->stop();
  CHECK(elapsed_since(start) < milliseconds(3000));
  CHECK(idle.read("x") == "[end]");
  CHECK(waits.read("\r\n\r\n").starts_with("HTTP/1.1 503"));
  CHECK(read_all(silent.get()).empty());
}

}  // namespace trainyard::http
