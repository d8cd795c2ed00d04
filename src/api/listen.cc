#include "api/listen.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::api {
namespace {

constexpr uint64_t kConnectionsMax = 65'536;  // Some kilobytes each, more while they speak TLS.
constexpr uint64_t kOthersMax = 4096;         // Of files, beside connections.

}  // namespace

bool Listen::loopback() const {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string Listen::url_host() const {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

Result<Listen> parse_listen(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorKind::invalid, "listen: '" + std::string(text) + "' is not HOST:PORT",
                "For example 127.0.0.1:8470, or [::1]:0 for any free port.");
  };
  Listen listen;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return wrong();
    listen.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  } else {
    const size_t colon = rest.find(':');
    listen.host = rest.substr(0, colon);
    rest.remove_prefix(std::min(rest.size(), listen.host.size()));
  }
  if (listen.host.empty()) listen.host = "127.0.0.1";
  if (rest.empty()) return listen;
  const Result<int64_t> port = parse_int(rest.substr(1), "port");
  if (!rest.starts_with(':') || !port || *port < 0 || *port > UINT16_MAX) return wrong();
  listen.port = static_cast<uint16_t>(*port);
  return listen;
}

size_t connections_for(uint64_t files_max) {
  const uint64_t others = std::min(files_max / 4, kOthersMax);
  return std::min(files_max - others, kConnectionsMax);
}

}  // namespace trainyard::api
