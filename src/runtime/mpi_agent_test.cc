#include "runtime/mpi_agent.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace trainyard::runtime {
namespace {

constexpr milliseconds kPatience{5000};

MpiHost here(const MpiGate& gate) { return {"127.0.0.1", gate.port()}; }

Fd connect_to(const MpiGate& gate) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(gate.port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  return fd;
}

TEST_CASE("a proof is RFC 4231's HMAC") {
  CHECK(hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(131, '\xaa'),
                    "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("hosts are written and read back, and bad ones are refused") {
  const std::vector<MpiHost> hosts = {{"198.18.0.11", 40001, "n1"}, {"fd00::2", 7, ""}};
  CHECK(format_hosts(hosts) == "198.18.0.11/40001/n1,fd00::2/7/");
  CHECK(parse_hosts(format_hosts(hosts)).value() == hosts);
  CHECK(parse_hosts("").value().empty());
  for (const char* bad : {"198.18.0.11", "198.18.0.11/80", "198.18.0.11/0/n", "198.18.0.11/65536/n",
                          "node-1/80/n", "/80/n", "198.18.0.11/80/n,"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_hosts(bad));
  }
}

TEST_CASE("a node is meant by its address or its name") {
  const std::vector<MpiHost> hosts = {{"198.18.0.11", 1, "n1"}, {"198.18.0.12", 2, ""}};
  CHECK(find_host(hosts, "198.18.0.12") == &hosts[1]);
  CHECK(find_host(hosts, "n1") == &hosts[0]);
  CHECK(find_host(hosts, "n1.example.org") == &hosts[0]);
  CHECK(find_host(hosts, "n2") == nullptr);
  CHECK(find_host(hosts, "") == nullptr);
}

TEST_CASE("a command gets to the other node, and its exit code back") {
  MpiGate gate = MpiGate::open(0, "tya_secret").value();
  Result<int> code = 0;
  const std::string command = "orted --name 'a b' " + std::string(100'000, 'x');
  std::jthread agent([&] { code = run_on(here(gate), "tya_secret", command, kPatience); });
  const Result<MpiGate::Asked> asked = gate.hear();
  REQUIRE(asked);
  CHECK(asked->command == command);
  MpiGate::finish(asked->agent, 7);
  agent.join();
  CHECK(code.value() == 7);
}

TEST_CASE("an agent without the attempt's token is refused, and told so") {
  MpiGate gate = MpiGate::open(0, "tya_secret").value();
  Result<int> code = 0;
  std::jthread agent([&] { code = run_on(here(gate), "tya_other", "rm -rf /", kPatience); });
  const Result<MpiGate::Asked> asked = gate.hear();
  agent.join();
  REQUIRE_FALSE(asked);
  CHECK(asked.error().kind == ErrorKind::denied);
  REQUIRE_FALSE(code);
  CHECK(code.error().message.find("does not know this attempt") != std::string::npos);
  CHECK(code.error().message.find("127.0.0.1 port") != std::string::npos);
}

TEST_CASE("a proof for one command does not cover another, nor a second time") {
  MpiGate gate = MpiGate::open(0, "tya_secret").value();
  const auto say = [&](std::string_view nonce_used) {
    const Fd fd = connect_to(gate);
    const std::string proof =
        hmac_sha256("tya_secret", "agent " + std::string(nonce_used) + " mine true");
    const std::string text = proof + " mine 4\ntrue";
    REQUIRE(send(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return gate.hear();
  };
  const auto asked = say("an-older-nonce");
  REQUIRE_FALSE(asked);
  CHECK(asked.error().kind == ErrorKind::denied);
}

TEST_CASE("whoever speaks otherwise is refused") {
  MpiGate gate = MpiGate::open(0, "tya_secret").value();
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("a b -1\n"), std::string("a b c d\n"),
        std::string("a b 99999999999\n"), std::string(4096, 'x')}) {
    CAPTURE(text);
    const Fd fd = connect_to(gate);
    REQUIRE(send(fd.get(), text.data(), text.size(), 0) > 0);
    CHECK_FALSE(gate.hear());
  }
  connect_to(gate);  // And goes away at once.
  CHECK_FALSE(gate.hear());
}

TEST_CASE("an agent whose node is gone in the middle says so and does not wait") {
  Result<int> code = 0;
  std::jthread agent;
  {
    MpiGate gate = MpiGate::open(0, "tya_secret").value();
    agent = std::jthread(
        [&code, host = here(gate)] { code = run_on(host, "tya_secret", "orted", kPatience); });
    REQUIRE(gate.hear());  // And dropped.
  }
  agent.join();
  REQUIRE_FALSE(code);
  CHECK(code.error().kind == ErrorKind::unavailable);
}

TEST_CASE("an agent waits a while for a node's launcher, and no longer") {
  const uint16_t port = MpiGate::open(0, "x").value().port();
  const Result<int> code = run_on({"127.0.0.1", port}, "tya_secret", "orted", milliseconds(60));
  REQUIRE_FALSE(code);
  CHECK(code.error().message.find("refused") != std::string::npos);

  Result<int> late = 0;
  std::jthread agent([&] { late = run_on({"127.0.0.1", port}, "tya_secret", "orted", kPatience); });
  MpiGate gate = MpiGate::open(port, "tya_secret").value();
  MpiGate::finish(gate.hear().value().agent, 0);
  agent.join();
  CHECK(late.value() == 0);
}

}  // namespace
}  // namespace trainyard::runtime
