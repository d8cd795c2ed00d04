#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::runtime {

// A line of /proc/PID/stat, as much of it as we use.
struct ProcessRow {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  char state = '?';
  double cpu_seconds = 0;  // Its own, and that of the children it has waited for.
  int64_t memory_bytes = 0;
  uint64_t start_ticks = 0;  // Since boot; together with the pid it names a process for good.
};

// Reads one such line. The command's name in it may hold anything, parentheses and newlines too.
Result<ProcessRow> parse_stat(std::string_view line);

// One process; not_found when there is none.
Result<ProcessRow> read_process(pid_t pid);

// Every process this /proc shows. One that ends meanwhile is left out.
std::vector<ProcessRow> read_processes();

// Those of `rows` that descend from `ancestor`, itself not among them.
std::vector<ProcessRow> descendants(const std::vector<ProcessRow>& rows, pid_t ancestor);

// Signals every process of a group but its leader, which has had its signal.
void signal_followers(pid_t leader, int number);

// The pids whose environment at exec held exactly NAME=VALUE.
std::vector<pid_t> processes_with_variable(std::string_view name, std::string_view value);

}  // namespace trainyard::runtime
