#include "http/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>

#include "base/fd.h"
#include "base/file.h"
#include "base/text.h"
#include "http/resolve.h"
#include "http/socket.h"

namespace trainyard::http {
namespace {

constexpr size_t kConnectionsMax = 2000;  // Of supervisors, two or three each.
constexpr size_t kBufferSize = 64UL * 1024;
constexpr milliseconds kLookUp{3000};
constexpr int kKeepAliveIdle_s = 60;  // A node that lost its power says nothing.
constexpr size_t kLineMax = 64;

// One way of a connection.
struct Flow {
  std::string waiting;  // Read and not yet written.
  bool ended = false;   // The reading side has said all.
  bool closed = false;  // And the writing side was told.
};

struct Pair {
  Fd near;
  Fd far;
  Flow there;  // From near to far.
  Flow back;
  bool broken = false;

  bool done() const { return broken || (there.closed && back.closed); }
};

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// What can be moved without waiting; false: the connection is broken.
bool move(Flow& flow, int from, int to) {
  for (;;) {
    while (!flow.waiting.empty()) {
      const ssize_t sent = ::send(to, flow.waiting.data(), flow.waiting.size(), MSG_NOSIGNAL);
      // ENOTCONN: it is still being connected.
      if (sent < 0) return try_again() || errno == ENOTCONN;
      flow.waiting.erase(0, static_cast<size_t>(sent));
    }
    if (flow.ended) {
      if (!flow.closed) ::shutdown(to, SHUT_WR);
      flow.closed = true;
      return true;
    }
    std::array<char, kBufferSize> buffer;  // NOLINT: recv() fills it.
    const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got < 0) return try_again() || errno == ENOTCONN;
    if (got == 0) flow.ended = true;
    flow.waiting.append(buffer.data(), static_cast<size_t>(got));
  }
}

short events_of(const Flow& reads, const Flow& writes) {
  int events = 0;
  if (!reads.ended && reads.waiting.empty()) events |= POLLIN;
  if (!writes.waiting.empty()) events |= POLLOUT;
  return static_cast<short>(events);
}

Result<Fd> connect_loopback(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "make a socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    return fail_errno(errno, "connect to port " + std::to_string(port));
  }
  return fd;
}

void keep_alive(int fd) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdle_s, sizeof kKeepAliveIdle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// A line, byte by byte: nothing behind it is taken.
Result<std::string> read_line(int fd) {
  std::string line;
  for (char c = 0; line.size() < kLineMax;) {
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ErrorKind::cancelled, "no port was told");
    if (c == '\n') return line;
    line += c;
  }
  return fail(ErrorKind::invalid, "what was told is no port");
}

class Relay {
 public:
  Relay(const RelayOptions& options, uint16_t to) : options_(options), to_(to) {}

  // The first of its addresses, and the port.
  Result<std::string> listen() {
    std::vector<std::string> hosts;
    for (const std::string& host : options_.toward) {
      const std::string ours = address_toward(host);
      if (!ours.empty() && std::ranges::find(hosts, ours) == hosts.end()) hosts.push_back(ours);
    }
    if (hosts.empty() && !options_.or_on.empty()) hosts.push_back(options_.or_on);
    if (hosts.empty()) {
      return fail(ErrorKind::unavailable,
                  "no address of this machine leads to the cluster's nodes");
    }
    uint16_t port = options_.port;
    for (const std::string& host : hosts) {
      TRY_SET(Fd fd, listen_tcp(host, port));
      TRY_SET(port, port_of(fd.get()));
      listeners_.push_back(std::move(fd));
    }
    return hosts.front() + " " + std::to_string(port);
  }

  void run() {
    MonotoneClock clock;
    SteadyTime heard = clock.steady();
    for (;;) {
      const auto left =
          std::chrono::ceil<milliseconds>(heard + options_.silence_max - clock.steady());
      if (left <= milliseconds(0)) return;
      fill();
      if (::poll(polled_.data(), polled_.size(), static_cast<int>(left.count())) < 0 &&
          errno != EINTR) {
        return;
      }
      if (polled_[0].revents != 0) {
        if (!hear()) return;
        heard = clock.steady();
      }
      serve();
      for (size_t i = 0; i < listeners_.size(); ++i) {
        if (polled_[1 + i].revents != 0) accept(listeners_[i].get());
      }
    }
  }

 private:
  void fill() {
    polled_.clear();
    polled_.push_back({options_.control_fd, POLLIN, 0});
    const bool full = pairs_.size() >= kConnectionsMax;
    for (const Fd& fd : listeners_) polled_.push_back({full ? -1 : fd.get(), POLLIN, 0});
    for (const Pair& pair : pairs_) {
      watch(pair.near.get(), events_of(pair.there, pair.back));
      watch(pair.far.get(), events_of(pair.back, pair.there));
    }
  }
  // One of which nothing is wanted just now would still tell, again and again, that it was closed.
  void watch(int fd, short events) { polled_.push_back({events != 0 ? fd : -1, events, 0}); }

  bool hear() const {
    std::array<char, 256> signs;  // NOLINT: read() fills it.
    const ssize_t got = ::read(options_.control_fd, signs.data(), signs.size());
    return got > 0 || (got < 0 && try_again());
  }

  void serve() {
    size_t at = 1 + listeners_.size();
    for (Pair& pair : pairs_) {
      const int events = polled_[at].revents | polled_[at + 1].revents;
      const int broken = events & (POLLERR | POLLNVAL);
      at += 2;
      if (events == 0) continue;
      pair.broken = broken != 0 || !move(pair.there, pair.near.get(), pair.far.get()) ||
                    !move(pair.back, pair.far.get(), pair.near.get());
    }
    pairs_.remove_if([](const Pair& pair) { return pair.done(); });
  }

  void accept(int listener) {
    while (pairs_.size() < kConnectionsMax) {
      Result<Accepted> accepted = accept_peer(listener, false);
      if (!accepted || !accepted->fd) return;
      Result<Fd> far = connect_loopback(to_);
      if (!far) continue;  // Whoever came sees it closed, and comes again.
      keep_alive(accepted->fd.get());
      keep_alive(far->get());
      pairs_.push_back({.near = std::move(accepted->fd), .far = *std::move(far)});
    }
  }

  const RelayOptions& options_;
  const uint16_t to_;
  std::vector<Fd> listeners_;
  std::list<Pair> pairs_;
  std::vector<pollfd> polled_;
};

}  // namespace

std::string address_toward(const std::string& host) {
  const Result<AddressList> found = resolve(host, 9, kLookUp);
  if (!found) return {};
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    // Of a datagram socket connect() sends nothing: it asks the kernel for the way.
    const Fd fd(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage ours{};
    socklen_t size = sizeof ours;
    if (!fd || ::connect(fd.get(), one->ai_addr, one->ai_addrlen) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&ours), &size) != 0) {
      continue;
    }
    char text[INET6_ADDRSTRLEN] = {};
    const bool v6 = ours.ss_family == AF_INET6;
    const void* const bytes =
        v6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(ours).sin6_addr)
           : &reinterpret_cast<const sockaddr_in&>(ours).sin_addr;
    ::inet_ntop(ours.ss_family, bytes, text, sizeof text);
    return text;
  }
  return {};
}

Status relay(const RelayOptions& options, int out_fd) {
  TRY_SET(const std::string line, read_line(options.control_fd));
  TRY_SET(const int64_t to, parse_int(trim(line), "port"));
  if (to < 1 || to > UINT16_MAX) return fail(ErrorKind::invalid, "'" + line + "' is no port");
  Relay relay(options, static_cast<uint16_t>(to));
  TRY_SET(std::string where, relay.listen());
  where += '\n';
  if (::write(out_fd, where.data(), where.size()) != static_cast<ssize_t>(where.size())) {
    return fail_errno(errno, "say where it listens");
  }
  relay.run();
  return {};
}

}  // namespace trainyard::http
