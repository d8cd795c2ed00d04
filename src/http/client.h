#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "http/message.h"

namespace trainyard::http {

// Where a server listens: a Unix socket, http://host:port or https://host:port.
struct Address {
  std::filesystem::path unix_socket;  // Wins when set.
  std::string host;
  uint16_t port = 0;
  bool tls = false;  // https: the server proves that it is `host`; see trust.h.

  std::string str() const;
  std::string host_and_port() const;                       // "127.0.0.1:8470", "[::1]:8470".
  static Result<Address> parse_url(std::string_view url);  // "http://127.0.0.1:8470", no path.
};

struct ClientRequest {
  Method method = Method::get;
  std::string target;  // "/api/v1/runs?x=y", encoded.
  Headers headers;
  std::string body;
  // A body of known size from elsewhere, instead of `body`: fills `buffer`, returns how much.
  std::function<Result<size_t>(char* buffer, size_t size)> source;
  uint64_t source_size = 0;
  // Takes the answer's body in pieces when its status is 2xx; else it is in Response::body.
  std::function<Status(std::string_view)> sink;
  // Called when the head of the answer has come, before its body, which may have no end.
  std::function<void(int status)> begun;
  std::chrono::milliseconds timeout{30'000};  // Without progress.
};

// A blocking client with one kept-alive connection. Not thread-safe: one per thread.
class Client {
 public:
  // `token` may be empty; it is sent as a bearer token.
  Client(Address address, std::string token);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  // A connection of its own to the same server, for another thread. An interrupt() of either makes
  // one of them fail.
  Client sibling() const;

  // An answer of any status is a Response; no answer is `unavailable` ("connect ADDRESS: …"), and a
  // server whose certificate is not good enough is `denied`. A kept-alive connection that turns out
  // closed before a byte of the answer came is reopened once, for every method: our API is
  // idempotent by design.
  Result<Response> send(const ClientRequest& request);
  // Fails fast when nobody listens; otherwise keeps the connection.
  Status connect();
  // Makes a send() under way in another thread, or else the next one, fail with `cancelled`. Any
  // thread.
  void interrupt();

  const Address& address() const;

 private:
  struct Connection;
  explicit Client(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace trainyard::http
