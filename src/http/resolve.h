#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::http {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The addresses of a host for a TCP connection; never empty. A numeric one asks nobody.
//
// A statically linked program cannot look up names by glibc, which would load libraries of this
// machine made for another glibc: there /etc/hosts is read and then `getent` asked, which has what
// it needs.
Result<AddressList> resolve(const std::string& host, uint16_t port, milliseconds timeout);

// The way of a static program, by name alone.
Result<std::vector<std::string>> look_up_without_libraries(const std::string& host,
                                                           milliseconds timeout);
// The addresses that the text of an /etc/hosts has for a name.
std::vector<std::string> addresses_in_hosts(std::string_view text, std::string_view host);

}  // namespace trainyard::http
