#include "http/client.h"

#include <sys/stat.h>

#include <thread>

#include "http/test_server.h"

namespace trainyard::http {

namespace {

// Plays a server that says, per connection, what it is told; and keeps what it heard.
class Script {
 public:
  explicit Script(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listener_ = listen_unix(dir_.path() / "socket").value();
    thread_ = std::jthread([this] { run(); });
  }
  Address address() const { return {.unix_socket = dir_.path() / "socket"}; }
  int served() const { return served_; }

 private:
  void run() {
    for (const std::string& answer : answers_) {
      pollfd one{listener_.get(), POLLIN, 0};
      if (::poll(&one, 1, 10'000) <= 0) return;
      const Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      ++served_;
      char buffer[65536];
      // One read is one request: those of the tests are small.
      if (::recv(fd.get(), buffer, sizeof(buffer), 0) <= 0) continue;
      ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  TempDir dir_;
  Fd listener_;
  std::vector<std::string> answers_;
  std::atomic<int> served_{0};
  std::jthread thread_;
};

}  // namespace

TEST_CASE("an address is read from a URL and written as one") {
  const Address address = Address::parse_url("http://127.0.0.1:8470").value();
  CHECK(address.host == "127.0.0.1");
  CHECK(address.port == 8470);
  CHECK(address.str() == "http://127.0.0.1:8470");
  CHECK(Address::parse_url("http://[::1]:80/").value().host == "::1");
  CHECK(Address::parse_url("http://[::1]:81").value().str() == "http://[::1]:81");
  CHECK(Address::parse_url("http://yard.example").value().port == 80);
  CHECK_FALSE(Address::parse_url("http://yard.example").value().tls);
  const Address secure = Address::parse_url("https://yard.example").value();
  CHECK(secure.tls);
  CHECK(secure.port == 443);
  CHECK(secure.str() == "https://yard.example:443");
  CHECK(Address::parse_url("https://[::1]:81").value().host_and_port() == "[::1]:81");
  CHECK(Address{.unix_socket = "/x/socket"}.str() == "/x/socket");
  for (const char* bad :
       {"", "127.0.0.1:1", "ftp://x", "http://", "http://:80", "http://x:0", "http://x:99999",
        "http://x:1/path", "http://x:y", "http://[::1", "http://[::1]x", "https://x:0", "https://",
        "httpss://x", "http://u@x:1"}) {
    CAPTURE(bad);
    CHECK_FALSE(Address::parse_url(bad).has_value());
  }
}

TEST_CASE("where nobody listens is said at once, and where") {
  TempDir dir;
  Client none(Address{.unix_socket = dir.path() / "none"}, "");
  const auto start = steady_clock::now();
  CHECK(none.connect().error().kind == ErrorKind::unavailable);
  CHECK(none.connect().error().message.starts_with("connect " + (dir.path() / "none").string()));
  {
    (void)listen_unix(dir.path() / "dead").value();
  }
  Client dead(Address{.unix_socket = dir.path() / "dead"}, "");
  CHECK(dead.connect().error().kind == ErrorKind::unavailable);
  uint16_t free_port = 0;
  {
    const Fd taken = listen_tcp("127.0.0.1", 0).value();
    free_port = port_of(taken.get()).value();
  }
  Client tcp(Address{.unix_socket = {}, .host = "127.0.0.1", .port = free_port}, "");
  const auto refused = get(tcp, "/");
  CHECK(refused.error().kind == ErrorKind::unavailable);
  CHECK(refused.error().message.find("Connection refused") != std::string::npos);
  CHECK(elapsed_since(start) < milliseconds(2000));
}

TEST_CASE("one connection carries many requests, with the token on each") {
  TestServer test;
  test.on(Method::post, "/", [](const Request& r) {
    return Response::text(std::string(r.header("authorization")) + "|" + r.body + "|" +
                          std::string(r.header("host")));
  });
  test.start();
  Client client(test.on_unix(), "tyu_secret");
  CHECK(client.connect());
  for (int i = 0; i < 100; ++i) {
    CHECK(post(client, "/", std::to_string(i)).value().body ==
          "Bearer tyu_secret|" + std::to_string(i) + "|localhost");
  }
  CHECK(test.server->counts().connections_open == 1);
  Client moved = std::move(client);
  CHECK(post(moved, "/", "x").value().status == 200);
  CHECK(test.server->counts().connections_open == 1);
}

TEST_CASE("a restarted server costs a kept connection nothing") {
  TestServer test;
  test.on(Method::post, "/", [](const Request& r) { return Response::text(r.body); });
  test.start();
  Client client = test.client();
  CHECK(post(client, "/", "a").value().body == "a");
  test.server.reset();
  CHECK(post(client, "/", "b").error().kind == ErrorKind::unavailable);
  test.start();
  CHECK(post(client, "/", "c").value().body == "c");
  test.server.reset();
  test.start();
  CHECK(post(client, "/", "d").value().body == "d");
}

TEST_CASE("a kept connection that dies under a request is opened again once") {
  const std::string good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  Script script({good, "", good});
  Client client(script.address(), "");
  CHECK(get(client, "/").value().body == "ok");
  // The script closes after each answer: whether that is seen before or after the next request is
  // sent, a fresh connection that closes without an answer is not tried a second time.
  CHECK(get(client, "/").error().kind == ErrorKind::unavailable);
  CHECK(script.served() == 2);
  CHECK(get(client, "/").value().body == "ok");
}

TEST_CASE("answers of every shape are understood") {
  Script script(
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
       "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nuntil the end",
       "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
       "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "SSH-2.0-OpenSSH\r\n\r\n"});
  Client client(script.address(), "");
  CHECK(get(client, "/").value().body == "ok");
  CHECK(get(client, "/").value().body == "abc");
  CHECK(get(client, "/").value().status == 204);
  CHECK(get(client, "/").value().body == "until the end");
  CHECK(get(client, "/").value().body == "nope");
  CHECK(get(client, "/").error().kind == ErrorKind::unavailable);
  CHECK(get(client, "/").error().kind == ErrorKind::unavailable);
}

TEST_CASE("the head of an answer is told before a byte of its body is taken") {
  Script script({"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello"});
  Client client(script.address(), "");
  std::string heard;
  ClientRequest request{.target = "/"};
  request.begun = [&](int status) { heard += std::to_string(status) + " "; };
  request.sink = [&](std::string_view piece) -> Status {
    heard += piece;
    return {};
  };
  REQUIRE(client.send(request).has_value());
  CHECK(heard == "200 hello");
}

TEST_CASE("a sink takes the body of a good answer, and only of that") {
  TestServer test;
  const std::string large(3'000'000, 'x');
  test.on(Method::get, "/good", [&](const Request&) { return Response::text(large); });
  test.on(Method::get, "/bad", [](const Request&) { return Response::text("why", 409); });
  test.start();
  Client client = test.client();
  std::string taken;
  ClientRequest request;
  request.sink = [&](std::string_view piece) -> Status {
    taken += piece;
    return {};
  };
  request.target = "/good";
  CHECK(client.send(request).value().body.empty());
  CHECK(taken == large);
  request.target = "/bad";
  CHECK(client.send(request).value().body == "why");
  request.target = "/good";
  request.sink = [](std::string_view) -> Status { return fail(ErrorKind::no_space, "full"); };
  CHECK(client.send(request).error().kind == ErrorKind::no_space);
  CHECK(get(client, "/bad").value().body == "why");
}

TEST_CASE("a source that fails or ends too soon fails the request") {
  TestServer test;
  test.on(Method::post, "/", [](const Request& r) { return Response::text(r.body); });
  test.start();
  Client client = test.client();
  ClientRequest request;
  request.method = Method::post;
  request.target = "/";
  request.source_size = 10;
  request.source = [](char*, size_t) -> Result<size_t> { return 0; };
  CHECK(client.send(request).error().kind == ErrorKind::invalid);
  request.source = [](char*, size_t) -> Result<size_t> { return fail(ErrorKind::denied, "no"); };
  CHECK(client.send(request).error().kind == ErrorKind::denied);
  request.source = [](char* to, size_t) -> Result<size_t> {
    *to = 'x';
    return 1;
  };
  CHECK(client.send(request).value().body == "xxxxxxxxxx");
}

TEST_CASE("a server that does not answer is given up, and asked only once") {
  TestServer test;
  std::atomic<int> asked{0};
  test.on(Method::get, "/never", [&](const Request& r) {
    ++asked;
    return Response::parked("never", r.arrived + seconds(600));
  });
  test.on(Method::get, "/", [&](const Request&) { return Response::text("hello"); });
  test.start();
  Client client = test.client();
  CHECK(get(client, "/").value().body == "hello");
  ClientRequest request;
  request.target = "/never";
  request.timeout = milliseconds(300);
  const auto start = steady_clock::now();
  CHECK(client.send(request).error().kind == ErrorKind::unavailable);
  CHECK(elapsed_since(start) >= milliseconds(300));
  CHECK(elapsed_since(start) < milliseconds(2000));
  CHECK(asked == 1);
  CHECK(get(client, "/").value().body == "hello");
}

TEST_CASE("a send is interrupted from another thread, also just before it begins") {
  TestServer test;
  test.on(Method::get, "/never",
          [](const Request& r) { return Response::parked("never", r.arrived + seconds(600)); });
  test.on(Method::get, "/", [&](const Request&) { return Response::text("hello"); });
  test.start();
  Client client = test.client();
  std::jthread other([&] {
    eventually([&] { return test.server->counts().parked == 1; });
    client.interrupt();
  });
  const auto start = steady_clock::now();
  CHECK(get(client, "/never").error().kind == ErrorKind::cancelled);
  CHECK(elapsed_since(start) < milliseconds(5000));
  other.join();
  CHECK(get(client, "/").value().body == "hello");
  client.interrupt();
  CHECK(get(client, "/never").error().kind == ErrorKind::cancelled);
  CHECK(get(client, "/").value().body == "hello");
}

TEST_CASE("a request that would smuggle another is not sent") {
  Client client(Address{.unix_socket = "/nowhere"}, "");
  CHECK(get(client, "/a\r\nx: y").error().kind == ErrorKind::invalid);
  CHECK(get(client, "/a b").error().kind == ErrorKind::invalid);
  CHECK(get(client, "a").error().kind == ErrorKind::invalid);
  ClientRequest request;
  request.target = "/";
  request.headers["x"] = "1\r\ny: 2";
  CHECK(client.send(request).error().kind == ErrorKind::invalid);
}

}  // namespace trainyard::http
