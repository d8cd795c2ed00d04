#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "db/db.h"

// Files that programs outside handed in for their interactive runs, until they are put into the
// tree of the run's outputs: one tree for many files, because each tree names all files before it.
namespace trainyard::store {

struct PendingOutput {
  std::string path;
  std::string digest;
  int64_t size = 0;
};

// In the order of their paths.
Result<std::vector<PendingOutput>> pending_outputs(db::Db& db, int64_t run);
Result<int64_t> count_pending_outputs(db::Db& db, int64_t run);
Result<bool> has_pending_outputs(db::Db& db, const RunId& run);
// The numbers of all runs that have some.
Result<std::vector<int64_t>> runs_with_pending_outputs(db::Db& db);
// conflict: a file is where the path needs a folder, or the reverse.
Status add_pending_output(db::Transaction& transaction, int64_t run, const PendingOutput& output);
// Those that are still as they were read.
Status remove_pending_outputs(db::Transaction& transaction, int64_t run,
                              const std::vector<PendingOutput>& outputs);

}  // namespace trainyard::store
