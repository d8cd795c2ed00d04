#include "http/tls.h"

#include <fcntl.h>
#include <netinet/in.h>

#include <cstdlib>
#include <latch>
#include <thread>

#include "http/test_authority.h"
#include "http/test_server.h"
#include "http/trust.h"

namespace trainyard::http {

namespace {

// A server that speaks TLS on its port, and whom this process trusts.
struct TlsServer : TestServer {
  TestAuthority authority;
  TlsFiles files;

  TlsServer() {
    files = write_pem(authority.issue(), dir.path(), "server");
    options.tls = files;
    const std::filesystem::path trusted = dir.path() / "ca.pem";
    REQUIRE(write_file(trusted, authority.certificate()).has_value());
    ::setenv("TRAINYARD_CA_FILE", trusted.c_str(), 1);
  }
  ~TlsServer() { ::unsetenv("TRAINYARD_CA_FILE"); }

  Address over_tls(std::string host = "127.0.0.1") const {
    return {.host = std::move(host), .port = server->port(), .tls = true};
  }
  Client tls_client() const { return Client(over_tls(), ""); }
};

Fd connect_tcp(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

// What comes until the other end closes.
std::string read_all(int fd) {
  std::string all;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
    if (n <= 0) return all;
    all.append(buffer, static_cast<size_t>(n));
  }
}

void send_raw(int fd, std::string_view bytes) {
  REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

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

// TLS by hand, over a blocking socket: sends what it is told.
struct RawTls {
  Fd fd;
  std::unique_ptr<Trust> trust = Trust::load().value();
  std::unique_ptr<TlsSession> session;

  explicit RawTls(uint16_t port) : fd(connect_tcp(port)) {
    session = trust->session(fd.get(), "127.0.0.1").value();
    auto step = session->handshake();
    while (step == TlsSession::Handshake::wants_read) {
      wait();
      step = session->handshake();
    }
    REQUIRE(step == TlsSession::Handshake::done);
  }
  void wait() const {
    pollfd one{fd.get(), POLLIN, 0};
    REQUIRE(::poll(&one, 1, 20'000) == 1);
  }
  void send(std::string_view bytes) const {
    REQUIRE(session->send(bytes) == static_cast<ssize_t>(bytes.size()));
  }
  // Until `enough` has come, or the end.
  std::string read(std::string_view enough) const {
    std::string all;
    char buffer[16384];
    while (all.find(enough) == std::string::npos) {
      const ssize_t n = session->recv(buffer);
      if (n < 0 && errno == EAGAIN) {
        wait();
      } else if (n <= 0) {
        return all + "[end]";
      } else {
        all.append(buffer, static_cast<size_t>(n));
      }
    }
    return all;
  }
};

Response hello(const Request&) { return Response::text("hello"); }

Handler when_ready(TestServer& test, std::atomic<bool>& ready) {
  return [&](const Request& request) {
    const SteadyTime until = request.arrived + seconds(600);
    if (ready || test.clock.steady() >= until) return Response::text("ready.");
    return Response::parked("ready", until);
  };
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
  test.start();
  RawTls raw(test.server->port());
  raw.send("GET /wait HTTP/1.1\r\n\r\n");
  REQUIRE(eventually([&] { return test.server->counts().parked == 1; }));
  const std::string behind =
      "POST / HTTP/1.1\r\ncontent-length: 150000\r\n\r\n" + std::string(150000, 'x');
  raw.send(behind);
  // Once for each record that was read ahead, and no more for those that were not.
  REQUIRE(eventually([&] { return looks >= 5 && test.server->counts().parked == 1; }));
  ready = true;
  test.server->notify("ready");
  CHECK(raw.read("hello").find("ready.") != std::string::npos);
  CHECK(looks < 12);
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

}  // namespace trainyard::http
