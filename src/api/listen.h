#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard::api {

// Where the server listens besides its Unix socket.
struct Listen {
  std::string host;   // "127.0.0.1", "::1", "0.0.0.0", a name
  uint16_t port = 0;  // 0: the home's own, or any.

  bool loopback() const;
  // As it is written in a URL and a Host header: "[::1]".
  std::string url_host() const;
};

// "HOST:PORT", "HOST", "[::1]:PORT", ":PORT" (loopback).
Result<Listen> parse_listen(std::string_view text);

}  // namespace trainyard::api
