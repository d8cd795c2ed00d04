#pragma once

#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "http/client.h"
#include "http/trust.h"

struct sockaddr;

namespace trainyard::http {

// A client's socket, with TLS where its address wants it: opened, waited for with a limit, and
// interrupted from another thread.
class Line {
 public:
  explicit Line(Address address);
  // To the same address; an interrupt() of either ends the next wait of one of them.
  explicit Line(const Line& sibling);
  ~Line() { close(); }

  const Address& address() const { return address_; }
  bool is_open() const { return static_cast<bool>(fd_); }
  void close();
  // Between two exchanges nothing may come: bytes, an end or an error all mean that it is over.
  bool looks_closed();

  // Without waiting; results and errno are those of recv(2) and sendmsg(2).
  ssize_t recv(std::span<char> into);
  ssize_t send(std::string_view first, std::string_view second);

  Status open(milliseconds timeout);
  // Waits for one of `events` of poll(2), and says which came.
  Result<short> wait(short events, milliseconds timeout);
  // Makes the wait under way, or else the next one, fail with `cancelled`. Any thread. Kept until
  // then: an interrupt just before a wait begins is not lost.
  void interrupt();

 private:
  Status open_unix(milliseconds timeout);
  Status open_tcp(milliseconds timeout);
  Status try_connect(int family, const sockaddr* to, unsigned size, milliseconds timeout);
  Status shake_hands(milliseconds timeout);

  Address address_;
  Fd interrupted_;
  Fd fd_;                         // Non-blocking.
  std::unique_ptr<Trust> trust_;  // Made when it is first needed.
  std::unique_ptr<TlsSession> tls_;
};

}  // namespace trainyard::http
