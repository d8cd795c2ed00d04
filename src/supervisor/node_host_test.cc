#include "supervisor/node_host.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

bool can_listen(int port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         listen(fd.get(), 1) == 0;
}

}  // namespace

TEST_CASE("ports behind each other are held, and free again once they are let go") {
  int first = 0;
  {
    const HeldPorts ports = HeldPorts::take("127.0.0.1", 9).value();
    first = ports.first();
    CHECK(first > 1023);
    CHECK(first + 8 <= 65535);
    for (int port = first; port < first + 9; ++port) CHECK_FALSE(can_listen(port));
  }
  for (int port = first; port < first + 9; ++port) CHECK(can_listen(port));
}

TEST_CASE("nobody finds the ports that another holds") {
  std::vector<HeldPorts> held;
  std::set<int> all;
  for (int i = 0; i < 20; ++i) {
    held.push_back(HeldPorts::take("127.0.0.1", 5).value());
    for (int port = 0; port < 5; ++port) CHECK(all.insert(held.back().first() + port).second);
  }
}

TEST_CASE("more ports than there are is an error that says so") {
  const auto ports = HeldPorts::take("127.0.0.1", 70'000);
  REQUIRE_FALSE(ports);
  CHECK(ports.error().message == "there are no 70000 free ports behind each other");
  CHECK_FALSE(HeldPorts::take("203.0.113.7", 1));  // Not an address of ours.
}

TEST_CASE("toward this machine the address is this machine's") {
  http::Address server;
  server.host = "127.0.0.1";
  server.port = 8470;
  CHECK(address_toward(server, milliseconds(1000)).value() == "127.0.0.1");
  server.host = "localhost";
  const std::string address = address_toward(server, milliseconds(1000)).value();
  CHECK((address == "127.0.0.1" || address == "::1"));
}

TEST_CASE("a node is called as Slurm calls it") {
  setenv("SLURMD_NODENAME", "n7", 1);
  CHECK(node_name({}) == "n7");
  CHECK(node_name({.node_name = "gpu-1"}) == "gpu-1");
  setenv("SLURMD_NODENAME", "", 1);
  CHECK_FALSE(node_name({}).empty());
  unsetenv("SLURMD_NODENAME");
}
