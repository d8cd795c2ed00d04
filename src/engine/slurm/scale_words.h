#pragma once

#include <string>
#include <vector>

#include "engine/slurm/scale_policy.h"

namespace trainyard::engine::slurm {

// What becomes of one want, for its sentence.
struct WantFacts {
  int nodes = 1;
  bool placed = false;                // All it asks for are there, or on their way.
  std::vector<std::string> ready;     // Up, with room.
  std::vector<std::string> starting;  // On their way.
  int in_use = 0;                     // Up without room, and waited for.
  bool full = false;                  // No more may be on.
};

// "waits for 4 nodes: 2 are up, 2 are starting (n4, n5); n3 did not come: exit 1: no quota; n5 is
// started instead"
std::string words_for_want(const WantFacts& facts, const ScaleLimits& limits,
                           const std::vector<ScaleNode>& nodes, SteadyTime now);

// "4 nodes", "a node".
std::string nodes_in_words(int nodes);
// "30 s", "5 min".
std::string time_in_words(microseconds time);
// "n1, n2, n3 and 7 more"
std::string names_in_words(const std::vector<std::string>& names);

}  // namespace trainyard::engine::slurm
