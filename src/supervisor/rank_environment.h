#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/assignment.h"
#include "model/report.h"

namespace trainyard::supervisor {

// Where a rank stands among the ranks of its attempt.
struct RankPlace {
  int node = 0;
  int local_rank = 0;
  // Every node, in order. The first one's port is the master's; TensorFlow's tasks take the ports
  // behind their node's, one each.
  std::vector<Host> hosts = {{.name = "localhost", .address = "127.0.0.1", .port = 0}};
};

// What a rank finds on its node.
struct RankFolders {
  std::string work;       // Where it starts.
  std::string records;    // Its file for what it tells.
  std::string python;     // The folder that holds our package; empty: none.
  std::string host_file;  // All nodes, as Open MPI reads them.
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

// Whether the ranks see the variables by which ranks meet.
bool is_distributed(const RunSpec& spec);

}  // namespace trainyard::supervisor
