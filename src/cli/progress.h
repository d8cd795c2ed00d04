#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace trainyard::cli {

// A bar on stderr for what lasts: not before half a second, only on a terminal, gone when done.
class Progress {
 public:
  Progress(Clock& clock, std::string label, bool shown);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, uint64_t total);
  // A line of words in the bar's place.
  void say(std::string_view words);

 private:
  Clock& clock_;
  std::string label_;
  bool shown_;
  SteadyTime started_;
  SteadyTime drawn_{};
  bool on_screen_ = false;
};

// "upload  [#####-----]  50%  2.0 of 4.0 MB"
std::string format_bar(const std::string& label, uint64_t done, uint64_t total);

}  // namespace trainyard::cli
