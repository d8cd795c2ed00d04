#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/home.h"

namespace trainyard::cli {

enum class Grade { ok, warn, fail };
std::string_view to_string(Grade grade);

// One thing `doctor` looked at.
struct Finding {
  Grade grade = Grade::ok;
  std::string name;
  std::string words;
  std::string advice;  // What to do about it; empty when it is well.
};

// This machine, as a place for runs. Each looks at one thing and changes nothing.
Finding look_at_machine();
Finding look_at_gpus();
Finding look_at_home(const Home& home);
Finding look_at_disk(const Home& home);
Finding look_at_namespaces();
Finding look_at_fuse();
Finding look_at_slurm();
Finding look_at_program(std::string_view name, std::string_view program, std::string_view there,
                        std::string_view absent);
Finding look_at_python();
Finding look_at_container_engine();
Finding look_at_bubblewrap();
Finding look_at_clock(WallTime now);

// How much room is enough: less than the first fails, less than the second warns.
inline constexpr uint64_t kDiskFail = 64ull * 1024 * 1024;
inline constexpr uint64_t kDiskWarn = 2ull * 1024 * 1024 * 1024;
Finding judge_disk(uint64_t free_bytes, uint64_t free_inodes, const std::string& where);

// The path of a program in $PATH, or empty.
std::string find_program(std::string_view name);

}  // namespace trainyard::cli
