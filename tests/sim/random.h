#pragma once

#include <cstdint>

#include "base/clock.h"

namespace trainyard::sim {

// All chance of a simulation comes from here, so that a seed tells everything. Our own and not
// <random>'s distributions: those differ between libraries, and a seed must not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}

  uint64_t next() {
    // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Both ends included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool percent(int chance) { return between(1, 100) <= chance; }
  microseconds pause(milliseconds low, milliseconds high) {
    return milliseconds(between(low.count(), high.count()));
  }

 private:
  uint64_t state_;
};

}  // namespace trainyard::sim
