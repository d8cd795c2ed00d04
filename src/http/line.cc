#include "http/line.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "http/resolve.h"
#include "http/socket.h"

namespace trainyard::http {

namespace {

constexpr int kUnixSendBuffer = 1 << 20;
constexpr milliseconds kBusyPause{5};  // Between tries at a socket whose queue is full.

std::unexpected<Error> unreachable(int number) {
  Error error = errno_error(number, "");
  return fail(ErrorKind::unavailable,
              error.message.substr(std::min<size_t>(2, error.message.size())));
}

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

std::string Address::str() const {
  if (!unix_socket.empty()) return unix_socket.string();
  return (tls ? "https://" : "http://") + host_and_port();
}

std::string Address::host_and_port() const { return bracketed(host) + ":" + std::to_string(port); }

Result<Address> Address::parse_url(std::string_view url) {
  const auto bad = [&] {
    return fail(ErrorKind::invalid, "'" + std::string(url) + "' is not the URL of a server",
                "Write it as https://HOST:PORT or http://HOST:PORT.");
  };
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  Address out;
  out.tls = url.starts_with(kTls);
  if (!out.tls && !url.starts_with(kPlain)) return bad();
  std::string_view rest = url.substr(out.tls ? kTls.size() : kPlain.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);

  out.port = out.tls ? 443 : 80;
  size_t host_end = rest.find(':');
  if (rest.starts_with('[')) {
    host_end = rest.find(']');
    if (host_end == std::string_view::npos) return bad();
    out.host = rest.substr(1, host_end - 1);
    ++host_end;
  } else {
    out.host = rest.substr(0, host_end);
  }
  if (out.host.empty() || out.host.find_first_of("/?#@ \t\r\n") != std::string::npos) return bad();
  if (host_end >= rest.size()) return out;
  if (rest[host_end] != ':') return bad();
  const std::string_view digits = rest.substr(host_end + 1);
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, out.port);
  if (parsed.ec != std::errc() || parsed.ptr != end || out.port == 0) return bad();
  return out;
}

Line::Line(Address address)
    : address_(std::move(address)), interrupted_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Line::Line(const Line& sibling)
    : address_(sibling.address_),
      interrupted_(::fcntl(sibling.interrupted_.get(), F_DUPFD_CLOEXEC, 0)) {}

void Line::close() {
  if (tls_) tls_->say_goodbye();
  tls_.reset();
  fd_.reset();
}

bool Line::looks_closed() {
  char byte = 0;
  // Not only a look where TLS is spoken: what it says to itself, such as tickets, is to be read.
  const ssize_t n =
      tls_ ? tls_->recv({&byte, 1}) : ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return !(n < 0 && errno == EAGAIN);
}

ssize_t Line::recv(std::span<char> into) {
  if (tls_) return tls_->recv(into);
  return ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
}

ssize_t Line::send(std::string_view first, std::string_view second) {
  if (tls_) return tls_->send(first, second);
  iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                    {const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Status Line::open(milliseconds timeout) {
  const bool on_tcp = address_.unix_socket.empty();
  Status opened = on_tcp ? open_tcp(timeout) : open_unix(timeout);
  if (opened && on_tcp && address_.tls) opened = shake_hands(timeout);
  if (opened) return opened;
  close();
  const Error& why = opened.error();
  if (why.kind == ErrorKind::cancelled) return opened;
  // Nobody answers there, whatever the cause: the caller's reaction is one and the same. A server
  // that cannot be trusted is another thing, and so is a trust that cannot be read.
  const bool distrust = why.kind == ErrorKind::denied || why.kind == ErrorKind::invalid;
  return fail(distrust ? why.kind : ErrorKind::unavailable,
              "connect " + address_.str() + ": " + why.message, why.hint);
}

Status Line::shake_hands(milliseconds timeout) {
  if (!trust_) {
    TRY_SET(trust_, Trust::load());
  }
  TRY_SET(tls_, trust_->session(fd_.get(), address_.host));
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    short wanted = POLLIN;
    switch (tls_->handshake()) {
      case TlsSession::Handshake::done:
        return {};
      case TlsSession::Handshake::wants_read:
        break;
      case TlsSession::Handshake::wants_write:
        wanted = POLLOUT;
        break;
      case TlsSession::Handshake::failed:
        return std::unexpected(tls_->failure());
    }
    const auto left = until - std::chrono::steady_clock::now();
    TRY(wait(wanted, std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0))));
  }
}

Status Line::open_unix(milliseconds timeout) {
  TRY_SET(const UnixAddress to, unix_address(address_.unix_socket));
  return try_connect(AF_UNIX, to.get(), to.size(), timeout);
}

Status Line::open_tcp(milliseconds timeout) {
  TRY_SET(const AddressList list, resolve(address_.host, address_.port, timeout));
  Status last = fail(ErrorKind::unavailable, "the name has no address");
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    last = try_connect(one->ai_family, one->ai_addr, one->ai_addrlen, timeout);
    if (last || last.error().kind == ErrorKind::cancelled) break;
  }
  return last;
}

Status Line::try_connect(int family, const sockaddr* to, unsigned size, milliseconds timeout) {
  fd_ = Fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_) return unreachable(errno);
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (::connect(fd_.get(), to, size) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINPROGRESS) break;
    // A Unix socket whose queue is full says EAGAIN at once, and offers nothing to wait for.
    if (errno != EAGAIN || std::chrono::steady_clock::now() > until) return unreachable(errno);
    pollfd stop{interrupted_.get(), POLLIN, 0};
    if (::poll(&stop, 1, static_cast<int>(kBusyPause.count())) > 0) break;
  }
  // Connected, on the way, or told to stop: wait() knows.
  TRY(wait(POLLOUT, timeout));
  int error = 0;
  socklen_t error_size = sizeof(error);
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &error_size);
  if (error != 0) return unreachable(error);
  const int on = 1;
  if (family != AF_UNIX) ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // A megabyte of console in one go, not in five; where we may not, as much as we may.
  if (family == AF_UNIX && ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kUnixSendBuffer,
                                        sizeof(kUnixSendBuffer)) != 0) {
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUF, &kUnixSendBuffer, sizeof(kUnixSendBuffer));
  }
  return {};
}

Result<short> Line::wait(short events, milliseconds timeout) {
  pollfd fds[2] = {{fd_.get(), events, 0}, {interrupted_.get(), POLLIN, 0}};
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    const auto ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
    const int n = ::poll(fds, 2, ms);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 && ms < left.count()) continue;  // Some wait longer than poll() can.
    if (n < 0) return fail_errno(errno, "poll");
    if (fds[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(interrupted_.get(), &count, sizeof(count));
      return fail(ErrorKind::cancelled, "interrupted");
    }
    if (n > 0) return fds[0].revents;
    return fail(ErrorKind::unavailable,
                "nothing came for " + std::to_string(timeout.count()) + " ms");
  }
}

void Line::interrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(interrupted_.get(), &one, sizeof(one));
}

}  // namespace trainyard::http
