#pragma once

#include <netinet/in.h>

#include <atomic>
#include <cstdlib>

#include "http/test_authority.h"
#include "http/test_server.h"
#include "http/trust.h"

// What the tests over TLS have in common.
namespace trainyard::http {

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

inline Fd connect_tcp(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

// What comes until the other end closes.
inline std::string read_all(int fd) {
  std::string all;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::recv(fd, buffer, sizeof(buffer), 0);
    if (n <= 0) return all;
    all.append(buffer, static_cast<size_t>(n));
  }
}

inline void send_raw(int fd, std::string_view bytes) {
  REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
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

inline Response hello(const Request&) { return Response::text("hello"); }

inline Handler when_ready(TestServer& test, std::atomic<bool>& ready) {
  return [&](const Request& request) {
    const SteadyTime until = request.arrived + seconds(600);
    if (ready || test.clock.steady() >= until) return Response::text("ready.");
    return Response::parked("ready", until);
  };
}

}  // namespace trainyard::http
