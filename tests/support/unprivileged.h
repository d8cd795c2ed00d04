#pragma once

#include <unistd.h>

namespace trainyard {

// For its lifetime the process has no power over permissions, also where tests run as root.
class Unprivileged {
 public:
  Unprivileged() {
    constexpr uid_t kNobody = 65534;
    if (before_ == 0 && seteuid(kNobody) != 0) before_ = kNobody;
  }
  ~Unprivileged() {
    if (before_ == 0 && seteuid(0) != 0) _exit(70);  // Going on as nobody would fail every test.
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  uid_t before_ = geteuid();
};

}  // namespace trainyard
