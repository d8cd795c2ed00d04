#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace trainyard::cli {

// What a run waits for, as it is told: on a terminal in one line that changes, elsewhere in a line
// for each thing and a few for the steps of one that lasts. Writes nothing itself.
class Waiting {
 public:
  struct Screen {
    bool terminal = false;
    int width = 0;  // 0: not cut.
  };
  Waiting(Screen screen, SteadyTime now) : screen_(screen), started_(now) {}

  // What to write for this reason. Nothing for a wait that has not lasted.
  std::string take(const std::string& from_server, SteadyTime now);
  // The same when it waits no longer: takes the line away, and where it has begun tells of what was
  // built meanwhile.
  enum class Then { begun, ended };
  std::string over(SteadyTime now, Then then = Then::begun);

 private:
  std::string tell_built(SteadyTime now);

  Screen screen_;
  SteadyTime started_;
  SteadyTime said_{};
  std::string reason_;
  std::string thing_;  // What the reason is about, without how far it is.
  std::string built_;  // An environment that was seen to be built, in words.
  SteadyTime built_since_{};
  std::optional<SteadyTime> built_until_;  // The run waited for something else from then on.
  bool on_screen_ = false;
};

// A reason to wait as words of ours: "waits for 2 CPUs: …" -> "waiting for 2 CPUs: …".
std::string waiting_line(const std::string& reason);

}  // namespace trainyard::cli
