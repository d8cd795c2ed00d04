#pragma once

#include <cstddef>
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

// How many connections a server takes that may have `files_max` files open. The others are for what
// it does: the database, blobs and consoles, a descriptor or two for each run on its own machine.
size_t connections_for(uint64_t files_max);

}  // namespace trainyard::api
