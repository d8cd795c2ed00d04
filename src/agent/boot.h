#pragma once

#include <string>

#include "base/file.h"

namespace trainyard::agent {

// How the daemon is started, at boot.
struct BootPlan {
  fs::path binary;
  fs::path home;
  std::string server;
};

// A systemd unit. A restart of it leaves the supervisors, which are its children, alone.
std::string unit_text(const BootPlan& plan);
// A line of a crontab, where there is no systemd.
std::string cron_line(const BootPlan& plan);

// Has it started at every boot, and now where that is the init's to do. Returns in words what was
// done; `unavailable`, with what to do by hand, where neither systemd nor cron is here.
struct Booted {
  std::string words;
  bool started = false;
};
Result<Booted> start_at_boot(const BootPlan& plan);
// Undoes it, as far as there is something.
Status forget_boot(const BootPlan& plan);

}  // namespace trainyard::agent
