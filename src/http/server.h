#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "http/certificate.h"
#include "http/router.h"

namespace trainyard::http {

struct ServerOptions {
  std::filesystem::path unix_socket;  // Empty: none. May be longer than sockaddr_un's 108 bytes.
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one.
  bool tcp = true;
  TlsFiles tls;  // For TCP; the Unix socket is always plain.
  int io_threads = 2;
  int workers = 8;
  size_t queue_max = 1024;  // Requests waiting for a worker; more are answered 503.
  // More are closed at once. A quarter, at most 1024, is kept for the Unix socket; some of these
  // answer reserved routes over TCP too, and give 503 to every other request.
  size_t connections_max = 4096;
  // From one IPv4 address or IPv6 /64 over TCP; more are closed at once. 0: half of
  // connections_max, so that no single address takes all.
  size_t connections_per_address_max = 0;
  // Of all request bodies that are held in memory at one time; beyond it they are answered 503.
  size_t body_memory_max = 128 * 1024 * 1024;
  // From the first byte to the end of the headers; and for the whole handshake of TLS.
  std::chrono::seconds header_deadline{10};
  std::chrono::seconds silence_deadline{30};   // Without a byte while request or answer is moving.
  std::chrono::seconds request_deadline{600};  // For a whole request with a body in memory.
  std::chrono::seconds idle_deadline{120};     // Between two requests of a connection.
  size_t header_bytes_max = 32 * 1024;
};

// HTTP/1.1 over a Unix socket (made 0600) and TCP at once, kept alive, with deadlines and limits on
// everything. Asio, Beast and OpenSSL are behind it, in loop.cc, parser.cc and tls.cc.
class Server {
 public:
  // `answer_error` makes the body of answers the server gives by itself (400, 404, 405, 408, 413,
  // 431, 500, 503; and what a sink's error maps to): kind, message. Any thread; must not block.
  using ErrorAnswer = std::function<Response(int status, const Error& error)>;

  static Result<std::unique_ptr<Server>> start(ServerOptions options, const Router& router,
                                               Clock& clock, Log& log, ErrorAnswer answer_error);
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // Wakes the requests parked under `key`. Any thread; cheap when nobody waits.
  virtual void notify(std::string_view key) = 0;
  // Takes no more requests, answers those under way, wakes the parked ones (one that wants to wait
  // on is answered 503); then all threads end. At most five seconds and the longest handler. Never
  // from a handler.
  virtual void stop() = 0;

  struct Counts {
    uint64_t requests = 0;
    uint64_t connections_open = 0;
    uint64_t parked = 0;
    uint64_t refused = 0;  // By a limit.
  };
  virtual Counts counts() const = 0;
};

}  // namespace trainyard::http
