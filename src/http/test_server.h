#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/log.h"
#include "http/client.h"
#include "http/server.h"
#include "http/socket.h"

// What the tests of server and client have in common.
namespace trainyard::http {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline Response plain_error(int status, const Error& error) {
  return Response::text(std::string(to_string(error.kind)) + ": " + error.message, status);
}

// A server in a folder of its own, on a Unix socket and on a free port.
struct TestServer {
  TempDir dir;
  MonotoneClock clock;
  NullLog log;
  Router router;
  ServerOptions options;
  std::unique_ptr<Server> server;

  TestServer() { options.unix_socket = dir.path() / "socket"; }

  void on(Method method, std::string pattern, Handler handler, size_t body_max = 1024 * 1024) {
    Route route;
    route.method = method;
    route.pattern = std::move(pattern);
    route.handler = std::move(handler);
    route.body_max = body_max;
    router.add(std::move(route));
  }
  void on_upload(std::string pattern, UploadHandler upload) {
    Route route;
    route.method = Method::post;
    route.pattern = std::move(pattern);
    route.upload = std::move(upload);
    router.add(std::move(route));
  }
  void start() {
    auto started = Server::start(options, router, clock, log, plain_error);
    REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().message));
    server = *std::move(started);
  }

  Address on_unix() const { return {.unix_socket = options.unix_socket}; }
  Address on_tcp() const {
    return {.unix_socket = {}, .host = "127.0.0.1", .port = server->port()};
  }
  Client client() const { return Client(on_unix(), ""); }
  Client tcp_client() const { return Client(on_tcp(), ""); }
};

inline Result<Response> get(Client& client, std::string target) {
  ClientRequest request;
  request.target = std::move(target);
  return client.send(request);
}

inline Result<Response> post(Client& client, std::string target, std::string body) {
  ClientRequest request;
  request.method = Method::post;
  request.target = std::move(target);
  request.body = std::move(body);
  return client.send(request);
}

// A client that may misbehave: it sends what it is told, and sees every byte.
class RawClient {
 public:
  explicit RawClient(const TestServer& test)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto address = unix_address(test.options.unix_socket);
    REQUIRE(address.has_value());
    REQUIRE(::connect(fd_.get(), address->get(), address->size()) == 0);
  }

  // Over TCP, from 127.0.0.1.
  explicit RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
            0);
  }

  bool send(std::string_view bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // What comes until the server closes, or until `enough` is in it.
  std::string read(std::string_view enough = {}, milliseconds limit = milliseconds(20'000)) {
    std::string all;
    const auto until = steady_clock::now() + limit;
    while (enough.empty() || all.find(enough) == std::string::npos) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
      pollfd one{fd_.get(), POLLIN, 0};
      if (left <= 0 || ::poll(&one, 1, static_cast<int>(left)) <= 0) return all + "[no end]";
      char buffer[4096];
      const ssize_t n = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) return all;
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  void shut_writing() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

// True once `condition` holds; looked at again and again, for at most ten seconds.
inline bool eventually(const std::function<bool()>& condition) {
  const auto until = steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (steady_clock::now() > until) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

inline milliseconds elapsed_since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

}  // namespace trainyard::http
