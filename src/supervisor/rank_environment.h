#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "model/assignment.h"

namespace trainyard::supervisor {

// Where a rank stands among the ranks of its attempt.
struct RankPlace {
  int rank = 0;        // Among all.
  int local_rank = 0;  // On its node.
  int node = 0;
  std::string master_address = "127.0.0.1";  // Of the node of rank 0.
  uint16_t master_port = 0;                  // Free there; chosen per attempt.
};

// All variables of a rank: those of the submitter, over them what the job declares, over them ours.
// A job of several ranks, or one that asks for a distribution, sees the variables of every family
// (MPI, PyTorch, TensorFlow, Batch AI); a plain script must see none of them, least of all
// LOCAL_RANK.
std::map<std::string, std::string> rank_environment(const Assignment& assignment,
                                                    const RankPlace& place);

// A TCP port that nobody listens on now.
Result<uint16_t> free_port();

}  // namespace trainyard::supervisor
