#include "http/tls.h"

#include <fcntl.h>

#include <latch>
#include <thread>

#include "http/line.h"
#include "http/test_tls.h"

namespace trainyard::http {

namespace {

// Bytes that differ everywhere, so that one piece in the place of another is seen.
std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace

TEST_CASE("over TLS requests are answered on one connection, and the Unix socket stays plain") {
  TlsServer test;
  test.on(Method::post, "/", [](const Request& request) { return Response::text(request.body); });
  test.start();
  Client client = test.tls_client();
  REQUIRE(client.connect().has_value());
  // Around the size of a record, where head and body are put together.
  for (const size_t size : {0, 1, 1000, 16000, 16300, 16384, 16385, 40000, 1000000}) {
    CAPTURE(size);
    const std::string body = pattern(size);
    const auto answer = post(client, "/", body);
    REQUIRE_MESSAGE(answer.has_value(), (answer ? "" : answer.error().message));
    CHECK((answer->body == body));
    CHECK(test.server->counts().connections_open == 1);
  }
  Client plain = test.client();
  CHECK(post(plain, "/", "x").value().body == "x");
  Client named(test.over_tls("localhost"), "");
  CHECK(post(named, "/", "x").value().body == "x");
}

TEST_CASE("a large upload and a large file go over TLS whole, also to a slow reader") {
  TlsServer test;
  const std::string bytes = pattern(20 << 20);
  const fs::path file = test.dir.path() / "large";
  REQUIRE(write_file(file, bytes).has_value());
  test.on(Method::get, "/file", [&](const Request&) {
    Response response;
    response.file = FileBody{open_file(file, O_RDONLY).value(), 0, bytes.size()};
    return response;
  });
  test.on(Method::get, "/memory", [&](const Request&) { return Response::text(bytes); });
  struct Sink : BodySink {
    std::string& into;
    explicit Sink(std::string& i) : into(i) {}
    Status write(std::string_view piece) override {
      into += piece;
      return {};
    }
  };
  std::string taken;
  test.on_upload("/upload", [&](const Request&) -> std::variant<Upload, Response> {
    return Upload{.sink = std::make_unique<Sink>(taken), .finish = hello};
  });
  test.start();
  Client client = test.tls_client();
  for (const char* target : {"/file", "/memory"}) {
    CAPTURE(std::string(target));
    std::string got;
    int pieces = 0;
    ClientRequest request;
    request.target = target;
    // Slow at times: then the server's writes are blocked in the middle of a record.
    request.sink = [&](std::string_view piece) -> Status {
      got += piece;
      if (++pieces % 100 == 0) ::poll(nullptr, 0, 2);
      return {};
    };
    REQUIRE(client.send(request).has_value());
    CHECK((got == bytes));
  }
  CHECK(post(client, "/upload", bytes).value().body == "hello");
  CHECK((taken == bytes));
}

TEST_CASE("a plain request to a port with TLS is told so in plain words, and noise is cut") {
  TlsServer test;
  test.on(Method::get, "/", hello);
  test.start();
  Client plain = test.tcp_client();
  const Response told = get(plain, "/").value();
  CHECK(told.status == 400);
  CHECK(told.body.find("TLS") != std::string::npos);
  const Fd noise = connect_tcp(test.server->port());
  send_raw(noise.get(), "\x01\x02\x03");
  CHECK(read_all(noise.get()).empty());
  // It begins as TLS does, and then is not.
  const Fd half = connect_tcp(test.server->port());
  send_raw(half.get(), "\x16GET / HTTP/1.1\r\n\r\n");
  CHECK(read_all(half.get()).find("hello") == std::string::npos);
  CHECK(eventually([&] { return test.server->counts().connections_open == 0; }));
  Client good = test.tls_client();
  CHECK(get(good, "/").value().body == "hello");
}

TEST_CASE("a client that is silent in the handshake is cut, at its beginning or in its middle") {
  TlsServer test;
  test.on(Method::get, "/", hello);
  test.options.header_deadline = seconds(1);
  test.start();
  const auto start = steady_clock::now();
  const Fd silent = connect_tcp(test.server->port());
  const Fd half = connect_tcp(test.server->port());
  send_raw(half.get(), std::string_view("\x16\x03\x01\x02\x00\x01\x00", 7));
  CHECK(read_all(silent.get()).empty());
  CHECK(read_all(half.get()).empty());
  CHECK(elapsed_since(start) >= milliseconds(900));
  CHECK(elapsed_since(start) < milliseconds(5000));
  CHECK(test.server->counts().refused == 2);
}

TEST_CASE("a renewed certificate is taken up at once, and a broken one is not") {
  TlsServer test;
  test.on(Method::get, "/", hello);
  test.start();
  Client before = test.tls_client();
  CHECK(get(before, "/").value().body == "hello");
  // Another authority's, and nobody here trusts it: so it is seen to be used.
  const TestAuthority other("Other");
  const Pem renewed = other.issue();
  REQUIRE(write_file(test.files.certificate, renewed.certificate).has_value());
  // Between its two files a renewal is not whole, and the old one goes on.
  Client between = test.tls_client();
  CHECK(get(between, "/").value().body == "hello");
  REQUIRE(write_file(test.files.key, renewed.key, 0600).has_value());
  Client after = test.tls_client();
  const auto refused = get(after, "/");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::denied);
  CHECK(refused.error().message.starts_with("connect https://127.0.0.1:"));
  CHECK(get(before, "/").value().body == "hello");  // It has its connection.
  REQUIRE(write_file(test.dir.path() / "ca.pem", other.certificate()).has_value());
  Client again = test.tls_client();
  CHECK(get(again, "/").value().body == "hello");
  REQUIRE(write_file(test.files.key, "broken").has_value());
  Client last = test.tls_client();
  CHECK(get(last, "/").value().body == "hello");
}

TEST_CASE("https to a plain server fails in words") {
  TlsServer test;
  test.options.tls = {};
  test.on(Method::get, "/", hello);
  test.start();
  Client client = test.tls_client();
  const auto answer = get(client, "/");
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().message.find("does not speak TLS") != std::string::npos);
  CHECK(answer.error().kind == ErrorKind::unavailable);
}

TEST_CASE("a connection over TLS that the server has closed is opened again") {
  TlsServer test;
  test.on(Method::get, "/", hello);
  test.options.idle_deadline = seconds(1);
  test.start();
  Client client = test.tls_client();
  CHECK(get(client, "/").value().body == "hello");
  REQUIRE(eventually([&] { return test.server->counts().connections_open == 0; }));
  CHECK(get(client, "/").value().body == "hello");
}

TEST_CASE("many clients at once shake hands and are all answered") {
  TlsServer test;
  test.on(Method::get, "/", hello);
  test.start();
  constexpr int kClients = 32;
  std::latch together(kClients);
  std::atomic<int> answered{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&] {
        Client client = test.tls_client();
        together.arrive_and_wait();
        for (int n = 0; n < 5; ++n) {
          const auto answer = get(client, "/");
          if (answer && answer->body == "hello") ++answered;
        }
      });
    }
  }
  CHECK(answered == kClients * 5);
}

TEST_CASE("a ticket that comes after the handshake is not taken for the end of the connection") {
  TlsServer test;
  test.start();
  Line line(test.over_tls());
  REQUIRE(line.open(milliseconds(20'000)).has_value());
  REQUIRE(line.wait(POLLIN, milliseconds(20'000)).has_value());
  CHECK_FALSE(line.looks_closed());
  test.server->stop();
  CHECK(line.looks_closed());
}

}  // namespace trainyard::http
