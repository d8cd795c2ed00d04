#pragma once

#include <memory>
#include <string>

#include "http/tls.h"

namespace trainyard::http {

// Whose word a client takes for who a server is. $TRAINYARD_CA_FILE alone where that is set, else
// $SSL_CERT_FILE and $SSL_CERT_DIR, else the system's authorities. One thread.
class Trust {
 public:
  static Result<std::unique_ptr<Trust>> load();

  // A session with `host`, a name or an address, over a connected socket. Its handshake fails
  // unless the server proves to be that host.
  Result<std::unique_ptr<TlsSession>> session(int fd, const std::string& host) const;

 private:
  explicit Trust(SslContextPtr context);

  SslContextPtr context_;
};

}  // namespace trainyard::http
