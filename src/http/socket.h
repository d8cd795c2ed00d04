#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "http/message.h"

namespace trainyard::http {

// The address of a Unix socket, whatever the length of its path: one that does not fit the 108
// bytes of sockaddr_un goes by /proc/self/fd/N/NAME, with its folder open as N for as long as this
// lives.
struct UnixAddress {
  Fd folder;
  sockaddr_un address{};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  socklen_t size() const { return sizeof(address); }
};
Result<UnixAddress> unix_address(const std::filesystem::path& path);

// Listening, non-blocking. The socket's file is 0600 from its first moment; one that nobody listens
// on any more is replaced, a living one is a `conflict`.
Result<Fd> listen_unix(const std::filesystem::path& path);
Result<Fd> listen_tcp(const std::string& host, uint16_t port);
Result<uint16_t> port_of(int fd);

// Non-blocking. No Fd and no error: nobody is waiting to be accepted.
struct Accepted {
  Fd fd;
  Peer peer;
  std::string network;  // Over TCP: the IPv4 address or IPv6 /64 it comes from.
};
Result<Accepted> accept_peer(int listener, bool unix_socket);

}  // namespace trainyard::http
