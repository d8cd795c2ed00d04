#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

namespace trainyard::supervisor {

// What the supervisor did, a line each, for people: system_logs/supervisor.txt of the run. Never
// fails: a full disk must not keep anything from ending. Thread-safe.
class SystemLog {
 public:
  SystemLog(const Clock& clock, const fs::path& path);
  void line(std::string_view text);

 private:
  const Clock& clock_;
  Fd fd_;
};

}  // namespace trainyard::supervisor
