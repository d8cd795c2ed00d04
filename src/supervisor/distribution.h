#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/run_spec.h"
#include "supervisor/rank_environment.h"

namespace trainyard::supervisor {

// Adds the variables by which the ranks of a run meet, in every family's words.
void add_distribution(const RunSpec& spec, const RankPlace& place, const std::string& host_file,
                      Variables& variables);

// A line a node: "10.0.0.4 slots=2".
std::string host_file_text(const RunSpec& spec, const std::vector<Host>& hosts);

// What TensorFlow calls a rank: a node's processes are workers, what comes after them parameter
// servers. The numbers count each kind apart.
struct Task {
  bool server = false;
  int index = 0;
};
Task task_of(const RunSpec& spec, int node, int local_rank);

}  // namespace trainyard::supervisor
