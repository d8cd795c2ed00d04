#include "http/relay.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "base/fd.h"
#include "base/text.h"
#include "http/socket.h"

using namespace trainyard;
using namespace trainyard::http;

namespace {

Fd connect_to(uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

Fd accept_one(int listener) {
  pollfd one{listener, POLLIN, 0};
  REQUIRE(::poll(&one, 1, 10000) == 1);
  Fd fd = accept_peer(listener, false).value().fd;
  ::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

struct Far {
  Fd listener = listen_tcp("127.0.0.1", 0).value();
  uint16_t port = port_of(listener.get()).value();
};

// A relay on a thread, told where to, and its two pipes.
struct Running {
  Fd control;
  Fd out;
  Status ended;
  std::jthread thread;
  uint16_t port = 0;
  std::string address;

  Running(uint16_t to, RelayOptions options) {
    std::array<int, 2> in{};
    std::array<int, 2> outs{};
    REQUIRE(::pipe2(in.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(outs.data(), O_CLOEXEC) == 0);
    control = Fd(in[1]);
    out = Fd(outs[0]);
    options.control_fd = in[0];
    thread = std::jthread([this, options, read_end = in[0], write_end = outs[1]] {
      const Fd reads(read_end);
      const Fd writes(write_end);
      ended = relay(options, write_end);
    });
    const std::string line = std::to_string(to) + "\n";
    REQUIRE(::write(control.get(), line.data(), line.size()) == std::ssize(line));
    std::string said;
    for (char c = 0; ::read(out.get(), &c, 1) == 1 && c != '\n';) said += c;
    const std::vector<std::string> words = split(said, ' ');
    if (words.size() != 2) return;
    address = words[0];
    port = static_cast<uint16_t>(std::stoi(words[1]));
  }
  ~Running() { control.reset(); }  // Which ends it; the thread is waited for after.
};

}  // namespace

TEST_CASE("a relay passes both ways on, each to its end") {
  Far far;
  Running relay(far.port, {.toward = {"127.0.0.1"}});
  CHECK(relay.address == "127.0.0.1");
  const Fd near = connect_to(relay.port);
  const Fd there = accept_one(far.listener.get());
  const std::string much(3'000'000, 'x');  // More than any buffer on the way.
  std::jthread writer([&] {
    size_t sent = 0;
    while (sent < much.size()) {
      const ssize_t one = ::send(near.get(), much.data() + sent, much.size() - sent, MSG_NOSIGNAL);
      if (one <= 0) break;
      sent += static_cast<size_t>(one);
    }
    ::shutdown(near.get(), SHUT_WR);
  });
  CHECK(read_all(there.get()) == much);  // And its end: the way back is still open.
  REQUIRE(::send(there.get(), "answer", 6, MSG_NOSIGNAL) == 6);
  ::shutdown(there.get(), SHUT_WR);
  CHECK(read_all(near.get()) == "answer");
  relay.control.reset();
  relay.thread.join();
  CHECK(relay.ended);
}

TEST_CASE("a relay whose far end is gone closes what comes, and goes on") {
  uint16_t gone = 0;
  {
    const Far far;
    gone = far.port;
  }
  Running relay(gone, {.toward = {"127.0.0.1"}});
  for (int i = 0; i < 3; ++i) CHECK(read_all(connect_to(relay.port).get()).empty());
}

TEST_CASE("a relay that hears nothing ends, and the next has its port") {
  Far far;
  Running first(far.port, {.toward = {"127.0.0.1"}, .silence_max = seconds(1)});
  const Fd held = connect_to(first.port);
  Running taken(far.port, {.port = first.port, .toward = {"127.0.0.1"}});
  taken.thread.join();
  REQUIRE_FALSE(taken.ended);
  CHECK(taken.ended.error().message.find("in use") != std::string::npos);
  first.thread.join();  // Nobody spoke for a second.
  CHECK(first.ended);
  const Running next(far.port, {.port = first.port, .toward = {"127.0.0.1"}});
  CHECK(next.port == first.port);
}

TEST_CASE("a relay that knows no way to the nodes listens where it was reached") {
  Far far;
  const Running relay(far.port, {.toward = {"no.such.host.invalid"}, .or_on = "127.0.0.1"});
  CHECK(relay.address == "127.0.0.1");
  Running nowhere(far.port, {.toward = {"no.such.host.invalid"}});
  nowhere.thread.join();
  CHECK_FALSE(nowhere.ended);
}
