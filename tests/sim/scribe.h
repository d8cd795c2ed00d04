#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "random.h"

namespace trainyard::sim {

// The file that a rank or a program writes its records into, and how far the server has them as
// far as the writer knows. Its bytes outlive the writer, as files do.
class Scribe {
 public:
  // Attempt 0: a program outside of an attempt.
  Scribe(AttemptId attempt, int rank) : attempt_(std::move(attempt)), rank_(rank) {}

  const AttemptId& attempt() const { return attempt_; }
  int rank() const { return rank_; }
  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  bool pending() const { return acknowledged_ < size(); }
  SteadyTime next_send() const { return next_send_; }

  // A few lines: points, children and what they do, labels, and some that are no records.
  void write(Random& random, SteadyTime now);

  // A piece of the bytes to be sent now. Calm: what is not acknowledged. Else now and then what
  // was sent before, or lies ahead of what the server has, and cut anywhere.
  struct Piece {
    int64_t from = 0;
    std::string bytes;
  };
  Piece cut(Random& random, SteadyTime now, bool calm);
  // The server's own count: it may be less than before.
  void acknowledge(int64_t taken) { acknowledged_ = taken; }
  // The server may have less than it said: what it has is to be asked.
  void doubt() { acknowledged_ = 0; }

 private:
  void add_line(Random& random);
  void add_label(Random& random);
  std::string child(Random& random);
  std::string number();

  AttemptId attempt_;
  int rank_;
  std::string text_;
  int64_t acknowledged_ = 0;
  int64_t points_ = 0;
  int children_ = 0;
  SteadyTime next_send_{};
};

}  // namespace trainyard::sim
