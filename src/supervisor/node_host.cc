#include "supervisor/node_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/process.h"
#include "http/resolve.h"
#include "http/socket.h"

namespace trainyard::supervisor {
namespace {

constexpr int kPortTriesMax = 200;
constexpr int kPortMax = 65535;
constexpr milliseconds kNumericTimeout{1000};  // Nobody is asked.

// No Fd: it is taken.
Result<Fd> bind_port(const addrinfo& address, int port) {
  Fd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "find a free port");
  sockaddr_storage storage{};
  std::copy_n(reinterpret_cast<const char*>(address.ai_addr), address.ai_addrlen,
              reinterpret_cast<char*>(&storage));
  // At the same place in both kinds of address.
  reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), address.ai_addrlen) == 0) return fd;
  if (errno == EADDRINUSE || errno == EACCES) return Fd();
  return fail_errno(errno, "find a free port");
}

}  // namespace

std::string node_name(const Assignment& assignment) {
  if (!assignment.node_name.empty()) return assignment.node_name;
  const char* name = std::getenv("SLURMD_NODENAME");
  return name != nullptr && *name != '\0' ? name : host_name();
}

Result<std::string> address_toward(const http::Address& server, milliseconds timeout) {
  TRY_SET(const http::AddressList list, http::resolve(server.host, server.port, timeout));
  int error = EADDRNOTAVAIL;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    // Of a datagram socket only the route is looked up.
    const Fd fd(socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    char text[INET6_ADDRSTRLEN];
    if (!fd || connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
      error = errno;
      continue;
    }
    const void* address =
        local.ss_family == AF_INET6
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&local)->sin6_addr)
            : &reinterpret_cast<const sockaddr_in*>(&local)->sin_addr;
    if (inet_ntop(local.ss_family, address, text, sizeof text) != nullptr) return std::string(text);
    error = errno;
  }
  return fail_errno(error, "find this node's address toward " + server.str());
}

Result<HeldPorts> HeldPorts::take(const std::string& address, int count) {
  TRY_SET(const http::AddressList list, http::resolve(address, 0, kNumericTimeout));
  for (int tries = 0; tries < kPortTriesMax && count < kPortMax; ++tries) {
    HeldPorts ports;
    TRY_SET(Fd first, bind_port(*list, 0));
    if (!first) continue;
    TRY_SET(const uint16_t number, http::port_of(first.get()));
    ports.first_ = number;
    ports.held_.push_back(std::move(first));
    while (static_cast<int>(ports.held_.size()) < count) {
      const int next = ports.first_ + static_cast<int>(ports.held_.size());
      if (next > kPortMax) break;
      TRY_SET(Fd fd, bind_port(*list, next));
      if (!fd) break;
      ports.held_.push_back(std::move(fd));
    }
    if (static_cast<int>(ports.held_.size()) == count) return ports;
  }
  return fail(ErrorKind::unavailable,
              "there are no " + std::to_string(count) + " free ports behind each other");
}

}  // namespace trainyard::supervisor
