#include "http/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file.h"

namespace trainyard::http {

namespace {

constexpr int kBacklog = 4096;  // The kernel cuts it to net.core.somaxconn.

Status clear_stale(const std::filesystem::path& path, const UnixAddress& address) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno(errno, "look at " + path.string());
  }
  if (!S_ISSOCK(info.st_mode)) {
    return fail(ErrorKind::conflict, "listen on " + path.string() + ": it is not a socket");
  }
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe) return fail_errno(errno, "make a socket");
  // EAGAIN: somebody listens, and is busy.
  if (::connect(probe.get(), address.get(), address.size()) == 0 || errno == EAGAIN) {
    return fail(ErrorKind::conflict, "listen on " + path.string() + ": another server does");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail_errno(errno, "remove " + path.string());
  }
  return {};
}

// One person has a whole IPv6 /64; IPv4 inside IPv6 is an address of its own.
std::string network_of(const sockaddr_storage& address) {
  const void* bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  int family = AF_INET;
  in6_addr v6{};
  if (address.ss_family == AF_INET6) {
    v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      bytes = &v6.s6_addr[12];
    } else {
      std::memset(&v6.s6_addr[8], 0, 8);
      bytes = &v6;
      family = AF_INET6;
    }
  }
  char text[INET6_ADDRSTRLEN] = {};
  return ::inet_ntop(family, bytes, text, sizeof(text)) == nullptr ? "" : text;
}

// A numeric host never asks a name server.
Result<std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>> resolve(const std::string& host,
                                                                     uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | AI_NUMERICHOST;
  const std::string service = std::to_string(port);
  addrinfo* list = nullptr;
  int error = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
  if (error == EAI_NONAME) {
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    error = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &list);
  }
  if (error != 0) {
    return fail(ErrorKind::invalid, "listen on " + host + ": " + ::gai_strerror(error));
  }
  return std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>(list, &::freeaddrinfo);
}

std::string describe(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
}

}  // namespace

Result<UnixAddress> unix_address(const std::filesystem::path& path) {
  UnixAddress out;
  out.address.sun_family = AF_UNIX;
  std::string name = path.string();
  if (name.size() >= sizeof(out.address.sun_path)) {
    const std::filesystem::path folder = path.parent_path();
    out.folder = Fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!out.folder) return fail_errno(errno, "open " + folder.string());
    name = "/proc/self/fd/" + std::to_string(out.folder.get()) + "/" + path.filename().string();
  }
  if (name.size() >= sizeof(out.address.sun_path)) {
    return fail(ErrorKind::invalid, "the socket's name is too long: " + path.string());
  }
  std::memcpy(out.address.sun_path, name.c_str(), name.size() + 1);
  return out;
}

Result<Fd> listen_unix(const std::filesystem::path& path) {
  const std::string doing = "listen on " + path.string();
  TRY_SET(const UnixAddress address, unix_address(path));
  TRY(clear_stale(path, address));
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, doing);
  // The file takes the mode of the socket's inode: so it is private at once, and no other thread's
  // umask is touched. Nobody can connect before listen() anyway.
  if (::fchmod(fd.get(), 0600) != 0) return fail_errno(errno, doing);
  if (::bind(fd.get(), address.get(), address.size()) != 0) return fail_errno(errno, doing);
  if (::chmod(path.c_str(), 0600) != 0) return fail_errno(errno, doing);
  if (::listen(fd.get(), kBacklog) != 0) return fail_errno(errno, doing);
  return fd;
}

Result<Fd> listen_tcp(const std::string& host, uint16_t port) {
  const std::string doing = "listen on " + host + ":" + std::to_string(port);
  TRY_SET(const auto address, resolve(host, port));
  Fd fd(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, doing);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0) {
    return fail_errno(errno, doing);
  }
  if (::listen(fd.get(), kBacklog) != 0) return fail_errno(errno, doing);
  return fd;
}

Result<uint16_t> port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return fail_errno(errno, "ask a socket's port");
  }
  const bool v6 = address.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                  : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<Accepted> accept_peer(int listener, bool unix_socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  Accepted out;
  do {
    out.fd = Fd(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
  } while (!out.fd && (errno == EINTR || errno == ECONNABORTED));
  if (!out.fd) {
    if (errno == EAGAIN) return out;
    return fail_errno(errno, "accept a connection");
  }
  out.peer.unix_socket = unix_socket;
  if (unix_socket) {
    ucred who{};
    socklen_t who_size = sizeof(who);
    if (::getsockopt(out.fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &who_size) != 0) {
      return fail_errno(errno, "ask who connects");
    }
    out.peer.uid = who.uid;
  } else {
    const int on = 1;
    ::setsockopt(out.fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    out.peer.address = describe(address);
    out.network = network_of(address);
  }
  return out;
}

}  // namespace trainyard::http
