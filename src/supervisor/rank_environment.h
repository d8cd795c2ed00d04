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

// What a rank finds on its node.
struct RankFolders {
  std::string work;     // Where it starts.
  std::string records;  // Its file for what it tells.
  std::string python;   // The folder that holds our package; empty: none.
  std::map<std::string, std::string> node_variables;  // Our own, for a run that is not of `local`.
};

// All variables of a rank: those of the submitter, over them what the job declares, over them ours.
// A job of several ranks, or one that asks for a distribution, sees the variables of every family
// (MPI, PyTorch, TensorFlow, Batch AI); a plain script must see none of them, least of all
// LOCAL_RANK.
using Variables = std::map<std::string, std::string>;
Variables rank_environment(const Assignment& assignment, const RankPlace& place,
                           const RankFolders& folders = {}, const Variables& secrets = {});

// The words to execute: a shell's text for bash, or sh where the rank's PATH has no bash; $VAR and
// ${VAR} filled in where the spec asks for it. A variable that is not there stays as written.
std::vector<std::string> rank_command(const RunSpec& spec, const Variables& variables);

// A TCP port that nobody listens on now.
Result<uint16_t> free_port();

}  // namespace trainyard::supervisor
