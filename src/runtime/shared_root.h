#pragma once

#include <string>

namespace trainyard::runtime {

// An environment that many runs share, as the ranks of one are to see it: nothing of the shelf it
// lies on can be changed, and what they write into it goes to a layer of their own.
struct SharedRoot {
  std::string shelf;  // Empty: there is none.
  std::string root;   // The environment, in it.
  std::string layer;  // A folder of the attempt's; upper/ and work/ are in it.
  std::string below;  // The layer of the job's preparation, which this one begins with; or empty.
  bool operator==(const SharedRoot&) const = default;
};

enum class SharedState {
  layered,    // Writes go to the layer.
  read_only,  // Writes fail: no layer can be made here.
  writable,   // It is as it is: mounts are refused.
};

// For a process with mounts of its own; all it starts later sees the same. Never an error: a run
// goes on with what can be had.
SharedState protect_shared(const SharedRoot& shared);

}  // namespace trainyard::runtime
