#include "runtime/mpi_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/hash.h"
#include "base/id.h"
#include "base/text.h"

namespace trainyard::runtime {
namespace {

constexpr std::string_view kGreeting = "trainyard-mpi 1 ";
constexpr size_t kLineMax = 512;
constexpr size_t kCommandMax = 16 << 20;
constexpr int kAnswerMs = 10'000;
constexpr int kAgainMs = 50;
constexpr int kBacklog = 64;

using Steady = std::chrono::steady_clock;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<SocketAddress> socket_address(const MpiHost& host) {
  SocketAddress made;
  auto* const four = reinterpret_cast<sockaddr_in*>(&made.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&made.storage);
  if (inet_pton(AF_INET, host.address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(host.port);
    made.size = sizeof *four;
  } else if (inet_pton(AF_INET6, host.address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(host.port);
    made.size = sizeof *six;
  } else {
    return fail(ErrorKind::invalid, "'" + host.address + "' is not an address in digits");
  }
  return made;
}

Status wait_readable(int fd, Steady::time_point until) {
  constexpr int64_t kAtOnceMs = 60'000;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now()).count();
    if (left < 0) return fail(ErrorKind::unavailable, "no answer in time");
    pollfd polled{fd, POLLIN, 0};
    const int got = poll(&polled, 1, static_cast<int>(std::min(left, kAtOnceMs)));
    if (got > 0) return {};
    if (got < 0 && errno != EINTR) return fail_errno(errno, "wait for an answer");
  }
}

Result<std::string> read_exactly(int fd, size_t size, Steady::time_point until) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    TRY(wait_readable(fd, until));
    const ssize_t got = recv(fd, bytes.data() + have, size - have, 0);
    if (got == 0) return fail(ErrorKind::unavailable, "the connection was closed");
    if (got < 0 && errno != EINTR) return fail_errno(errno, "read");
    if (got > 0) have += static_cast<size_t>(got);
  }
  return bytes;
}

Result<std::string> read_line(int fd, Steady::time_point until) {
  std::string line;
  while (line.size() < kLineMax) {
    TRY_SET(const std::string byte, read_exactly(fd, 1, until));
    if (byte.front() == '\n') return line;
    line += byte;
  }
  return fail(ErrorKind::invalid, "a line is too long");
}

Status send_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return fail_errno(errno, "send");
    if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

std::string agent_proof(const std::string& token, const std::string& their_nonce,
                        const std::string& our_nonce, const std::string& command) {
  return hmac_sha256(token, "agent " + their_nonce + " " + our_nonce + " " + command);
}
std::string launcher_proof(const std::string& token, const std::string& agent_nonce) {
  return hmac_sha256(token, "launcher " + agent_nonce);
}

// A host that is gone without a word is noticed.
void keep_alive(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

Result<Fd> connect_once(const SocketAddress& to) {
  Fd fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "make a socket");
  if (connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return fail_errno(errno, "connect");
  }
  pollfd polled{fd.get(), POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (poll(&polled, 1, kAnswerMs) > 0) getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail_errno(error, "connect");
  fcntl(fd.get(), F_SETFL, 0);
  keep_alive(fd.get());
  return fd;
}

Result<Fd> connect_patiently(const MpiHost& host, milliseconds patience) {
  TRY_SET(const SocketAddress to, socket_address(host));
  const auto until = Steady::now() + patience;
  for (;;) {
    Result<Fd> fd = connect_once(to);
    if (fd || Steady::now() >= until) return fd;
    poll(nullptr, 0, kAgainMs);
  }
}

}  // namespace

std::string format_hosts(const std::vector<MpiHost>& hosts) {
  std::vector<std::string> parts;
  for (const MpiHost& host : hosts) {
    parts.push_back(host.address + "/" + std::to_string(host.port) + "/" + host.name);
  }
  return join(parts, ",");
}

Result<std::vector<MpiHost>> parse_hosts(std::string_view text) {
  std::vector<MpiHost> hosts;
  if (text.empty()) return hosts;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> fields = split(part, '/');
    if (fields.size() != 3) return fail(ErrorKind::invalid, "'" + part + "' is not a host");
    TRY_SET(const int64_t port, parse_int(fields[1], "port"));
    if (port < 1 || port > UINT16_MAX) return fail(ErrorKind::invalid, "'" + part + "': no port");
    hosts.push_back({fields[0], static_cast<uint16_t>(port), fields[2]});
    TRY(socket_address(hosts.back()));
  }
  return hosts;
}

const MpiHost* find_host(const std::vector<MpiHost>& hosts, std::string_view wanted) {
  const std::string_view label = wanted.substr(0, wanted.find('.'));
  for (const MpiHost& host : hosts) {
    if (host.address == wanted) return &host;
    if (!host.name.empty() && (host.name == wanted || host.name == label)) return &host;
  }
  return nullptr;
}

// RFC 2104.
std::string hmac_sha256(std::string_view key, std::string_view text) {
  constexpr size_t kBlock = 64;
  const auto as_bytes = [](const Digest& digest) {
    return std::string(digest.bytes.begin(), digest.bytes.end());
  };
  std::string padded = key.size() > kBlock ? as_bytes(sha256(key)) : std::string(key);
  padded.resize(kBlock, '\0');
  std::string inner = padded;
  std::string outer = padded;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer + as_bytes(sha256(inner + std::string(text)))).hex();
}

Result<MpiGate> MpiGate::open(uint16_t port, std::string token) {
  Fd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress at;
  at.size = sizeof(sockaddr_in6);
  reinterpret_cast<sockaddr_in6*>(&at.storage)->sin6_port = htons(port);
  at.storage.ss_family = AF_INET6;
  const int off = 0;
  if (fd) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!fd) {  // A kernel without IPv6.
    fd = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    at.storage.ss_family = AF_INET;
    at.size = sizeof(sockaddr_in);
  }
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd || bind(fd.get(), at.get(), at.size) != 0 || listen(fd.get(), kBacklog) != 0) {
    return fail_errno(errno, "listen for mpirun at port " + std::to_string(port));
  }
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at.storage), &at.size);
  // The port is at the same place in both kinds of address.
  const uint16_t bound = ntohs(reinterpret_cast<sockaddr_in*>(&at.storage)->sin_port);
  return MpiGate(std::move(fd), bound, std::move(token));
}

Result<MpiGate::Asked> MpiGate::hear() {
  Asked asked;
  asked.agent = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!asked.agent) return fail_errno(errno, "accept mpirun's agent");
  const int fd = asked.agent.get();
  keep_alive(fd);
  const auto until = Steady::now() + std::chrono::milliseconds(kAnswerMs);
  const std::string nonce = new_secret("");
  TRY(send_text(fd, std::string(kGreeting) + nonce + "\n"));
  TRY_SET(const std::string line, read_line(fd, until));
  const std::vector<std::string> words = split(line, ' ');
  const Result<int64_t> size = parse_int(words.size() == 3 ? words[2] : "", "size");
  if (!size || *size < 0 || *size > static_cast<int64_t>(kCommandMax)) {
    return fail(ErrorKind::denied, "somebody who is not mpirun's agent connected");
  }
  TRY_SET(asked.command, read_exactly(fd, static_cast<size_t>(*size), until));
  if (!equal_secrets(words[0], agent_proof(token_, nonce, words[1], asked.command))) {
    static_cast<void>(send_text(fd, "refused\n").has_value());
    return fail(ErrorKind::denied, "somebody without the attempt's token was refused");
  }
  TRY(send_text(fd, "ok " + launcher_proof(token_, words[1]) + "\n"));
  return asked;
}

void MpiGate::finish(const Fd& agent, int code) {
  // An agent that is gone needs no answer.
  static_cast<void>(send_text(agent.get(), "exit " + std::to_string(code) + "\n").has_value());
}

Result<int> run_on(const MpiHost& host, const std::string& token, const std::string& command,
                   milliseconds patience) {
  const std::string where = host.address + " port " + std::to_string(host.port);
  const auto within = [&](Error error) { return std::unexpected(std::move(error).within(where)); };
  Result<Fd> connected = connect_patiently(host, patience);
  if (!connected) return within(connected.error());
  const int fd = connected->get();
  const auto until = Steady::now() + std::chrono::milliseconds(kAnswerMs);
  const Result<std::string> greeting = read_line(fd, until);
  if (!greeting) return within(greeting.error());
  if (!greeting->starts_with(kGreeting)) {
    return within({ErrorKind::denied, "the node's launcher is not who answers there", {}});
  }
  const std::string nonce = new_secret("");
  const std::string proof = agent_proof(token, greeting->substr(kGreeting.size()), nonce, command);
  if (const Status sent = send_text(
          fd, proof + " " + nonce + " " + std::to_string(command.size()) + "\n" + command);
      !sent) {
    return within(sent.error());
  }
  const Result<std::string> answer = read_line(fd, until);
  if (!answer) return within(answer.error());
  if (!equal_secrets(*answer, "ok " + launcher_proof(token, nonce))) {
    return within({ErrorKind::denied, "the node's launcher does not know this attempt", {}});
  }
  const Result<std::string> last = read_line(fd, Steady::time_point::max());
  if (!last) return within(last.error());
  TRY_SET(const int64_t code, parse_int(last->starts_with("exit ") ? last->substr(5) : "", "code"));
  return static_cast<int>(code);
}

}  // namespace trainyard::runtime
