#include "supervisor/system_log.h"

#include <fcntl.h>

namespace trainyard::supervisor {

SystemLog::SystemLog(const Clock& clock, const fs::path& path) : clock_(clock) {
  if (Result<Fd> fd = open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0600)) fd_ = *std::move(fd);
}

void SystemLog::line(std::string_view text) {
  if (!fd_) return;
  const std::string whole = format_time(clock_.wall()) + " " + std::string(text) + "\n";
  static_cast<void>(write_all(fd_.get(), whole, "write the system log").has_value());
}

}  // namespace trainyard::supervisor
