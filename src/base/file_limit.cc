#include "base/file_limit.h"

#include <atomic>

namespace trainyard {
namespace {

// The soft limit that we were given; 0: ours is that still. The limit itself is the process's, and
// so is what it was.
std::atomic<rlim_t> given_soft = 0;

}  // namespace

FileLimit raise_file_limit() {
  FileLimit limit;
  getrlimit(RLIMIT_NOFILE, &limit.now);
  limit.given = limit.now;
  if (limit.now.rlim_cur < limit.now.rlim_max) {
    given_soft = limit.given.rlim_cur;
    limit.now.rlim_cur = limit.now.rlim_max;
    // Refused where the hard limit is beyond the kernel's own (fs.nr_open): all stays as it is.
    if (setrlimit(RLIMIT_NOFILE, &limit.now) != 0) limit.now = limit.given;
  } else if (const rlim_t soft = given_soft; soft != 0) {
    limit.given.rlim_cur = soft;
  }
  return limit;
}

void give_back_file_limit() {
  const rlim_t soft = given_soft;
  rlimit limit{};
  if (soft == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = soft;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace trainyard
