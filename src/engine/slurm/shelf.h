#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "model/assignment.h"

namespace trainyard::engine::slurm {

// What jobs of a compute could not send, because the server was away when they were done: its
// shared folder (slurm_job.bash, ty_shelve). It is collected once Slurm has no job of the attempt:
// each node's journal, console and outputs are copied to a private folder, and a supervisor here
// sends them and ends the attempt, as one does on a node after its predecessor died. Collecting
// twice does no harm: the server takes every report and byte once. Blocks; any thread.
class Shelf {
 public:
  struct Options {
    fs::path shared;
    std::string owner;   // Whose jobs: job_owner().
    fs::path collected;  // A private folder, for the copies.
    fs::path binary;     // trainyard.
    Log& log;
    int stop_fd = -1;  // Readable: no longer wanted.
  };
  explicit Shelf(Options options) : options_(std::move(options)) {}

  // Whether any node of the attempt left something.
  bool has(const AttemptId& attempt) const;
  // The attempt is over without it.
  void discard(const AttemptId& attempt) const;
  // `nodes`: what the supervisor of each is told. `cancelled`: we are being stopped.
  Status collect(const std::vector<Assignment>& nodes) const;

 private:
  std::vector<fs::path> all_of(const AttemptId& attempt) const;
  Status collect_node(const Assignment& node, const fs::path& from) const;

  const Options options_;
};

}  // namespace trainyard::engine::slurm
