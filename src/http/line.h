#pragma once

#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "http/client.h"

struct sockaddr;

namespace trainyard::http {

// A client's socket: opened, waited for with a limit, and interrupted from another thread.
class Line {
 public:
  explicit Line(Address address);

  const Address& address() const { return address_; }
  // Non-blocking; -1 when not open.
  int fd() const { return fd_.get(); }
  bool is_open() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }
  // Between two exchanges nothing may come: bytes, an end or an error all mean that it is over.
  bool looks_closed() const;

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

  Address address_;
  Fd interrupted_;
  Fd fd_;
};

}  // namespace trainyard::http
