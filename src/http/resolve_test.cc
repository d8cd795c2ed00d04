#include "http/resolve.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <cstdlib>

#include "base/file.h"

namespace trainyard::http {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("a numeric address is taken as it is") {
  const auto list = resolve("127.0.0.1", 80, seconds(5)).value();
  REQUIRE(list->ai_family == AF_INET);
  const auto* address = reinterpret_cast<const sockaddr_in*>(list->ai_addr);
  CHECK(ntohs(address->sin_port) == 80);
  CHECK(ntohl(address->sin_addr.s_addr) == INADDR_LOOPBACK);
  CHECK(resolve("::1", 80, seconds(5)).value()->ai_family == AF_INET6);
}

TEST_CASE("a name that nobody knows is unavailable, for it may come") {
  const auto list = resolve("no-such-host.invalid", 80, seconds(10));
  REQUIRE(!list);
  CHECK(list.error().kind == ErrorKind::unavailable);
}

TEST_CASE("a name is found in the text of /etc/hosts, whatever its case and place") {
  constexpr const char* kHosts =
      "# n1 is not here\n127.0.0.1\tlocalhost\n10.0.0.5  N1.lab n1 # n2\n\nfe80::1 n1\n";
  CHECK(addresses_in_hosts(kHosts, "n1") == Names{"10.0.0.5", "fe80::1"});
  CHECK(addresses_in_hosts(kHosts, "n1.LAB") == Names{"10.0.0.5"});
  CHECK(addresses_in_hosts(kHosts, "localhost") == Names{"127.0.0.1"});
  CHECK(addresses_in_hosts(kHosts, "n2").empty());
  CHECK(addresses_in_hosts(kHosts, "10.0.0.5").empty());
}

// A PATH where `getent` is this script, or nothing is.
class Getent {
 public:
  explicit Getent(const std::string& script) {
    if (!script.empty()) {
      REQUIRE(write_file(folder_.path() / "getent", "#!/bin/sh\n" + script));
      fs::permissions(folder_.path() / "getent", fs::perms::owner_all);
    }
    setenv("PATH", folder_.path().c_str(), 1);
  }
  ~Getent() { setenv("PATH", before_.c_str(), 1); }
  Getent(const Getent&) = delete;
  Getent& operator=(const Getent&) = delete;

 private:
  TempDir folder_;
  std::string before_ = std::getenv("PATH");
};

TEST_CASE("without libraries a name is asked of getent, each address once") {
  const Getent getent(
      "[ \"$1 $2\" = 'ahosts far.away' ] || exit 2\n"
      "echo '10.1.2.3  STREAM far.away'\necho '10.1.2.3  DGRAM'\necho '10.1.2.4  STREAM'\n");
  CHECK(look_up_without_libraries("far.away", seconds(10)).value() ==
        Names{"10.1.2.3", "10.1.2.4"});
  const Error unknown = look_up_without_libraries("near.by", seconds(10)).error();
  CHECK(unknown.kind == ErrorKind::unavailable);
  CHECK(unknown.message == "the name is not known here (getent ended with exit code 2)");
  CHECK(look_up_without_libraries("localhost", seconds(10)).value().front() != "");
}

TEST_CASE("without libraries and getent it is said what to do") {
  const Getent nothing("");
  const Error error = look_up_without_libraries("far.away", seconds(10)).error();
  CHECK(error.kind == ErrorKind::unavailable);
  CHECK(error.message.find("no getent") != std::string::npos);
  CHECK(error.hint.find("--advertise") != std::string::npos);
}

}  // namespace
}  // namespace trainyard::http
