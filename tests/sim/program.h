#pragma once

#include "random.h"
#include "scribe.h"

namespace trainyard::sim {

// A program that carries an interactive run from elsewhere: it tells of it for a while and then
// how it ended, when all it told was taken.
class Program {
 public:
  Program(const RunId& run, Random& random, SteadyTime now)
      : scribe_({run, 0}, static_cast<int>(random.between(1, 9))),
        steps_left_(random.between(1, 6)),
        next_step_(now) {}

  const RunId& run() const { return scribe_.attempt().run; }
  Scribe& scribe() { return scribe_; }
  const Scribe& scribe() const { return scribe_; }
  bool wants_end() const { return steps_left_ <= 0 && !scribe_.pending(); }
  SteadyTime next_step() const { return next_step_; }

  void step(Random& random, SteadyTime now) {
    next_step_ = now + random.pause(milliseconds(100), seconds(30));
    if (steps_left_-- > 0) scribe_.write(random, now);
  }

 private:
  Scribe scribe_;
  int64_t steps_left_;
  SteadyTime next_step_;
};

}  // namespace trainyard::sim
