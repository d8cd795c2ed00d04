#pragma once

#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"

namespace trainyard::api {

// What the lock file says of the server that holds it.
struct LockHolder {
  std::string host;
  int64_t pid = 0;
  std::string boot_id;
  int64_t port = 0;
  std::string url;
  std::string started;
};

// One server per home. The lock is flock(2) on HOME/lock, which ends with the process however it
// ends; its content says who holds it, for people, and for servers on other hosts that share the
// folder: there flock may not reach.
class HomeLock {
 public:
  // `conflict` while another server has it: with its pid and address, or with its host when that is
  // another one.
  static Result<HomeLock> take(const Home& home);

  HomeLock(HomeLock&&) noexcept = default;
  HomeLock& operator=(HomeLock&&) noexcept = default;

  // Writes who we are; `port` 0 before it is known.
  Status describe(int port, std::string_view url, WallTime started);
  // For a clean stop: nobody was cut off here.
  void clear();

 private:
  explicit HomeLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// What is written in the lock file; empty fields when nothing is.
LockHolder read_lock(const Home& home);

}  // namespace trainyard::api
