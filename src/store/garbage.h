#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "db/db.h"

// What the database refers to outside of itself, read in pages: for garbage collection.
namespace trainyard::store {

struct References {
  std::vector<std::string> trees;         // Of code, outputs and build contexts; never empty texts.
  std::vector<std::string> environments;  // Hashes of the runs' environments.
  int64_t last = 0;                       // The last run's number; 0: there was none.
};
// Of the next `limit` runs by number, deleted ones included, and of their attempts.
Result<References> run_references(db::Db& db, int64_t after, int limit);
// Of one run, its attempts left out; not_found.
Result<References> references_of(db::Db& db, const RunId& run);
// Trees of code of a workspace's newest runs, each once.
Result<std::vector<std::string>> newest_snapshots(db::Db& db, std::string_view workspace, int runs);
// Whether a run of the workspace has named this tree as its code.
Result<bool> workspace_knows(db::Db& db, std::string_view workspace, std::string_view tree);
// Build contexts of registered and curated environments.
Result<std::vector<std::string>> environment_trees(db::Db& db);

// Trees that submissions rely on without another look: all of them are references too.
struct VerifiedTree {
  std::string tree;
  WallTime at{};
};
Result<std::vector<VerifiedTree>> verified_trees(db::Db& db, std::string_view after, int limit);
// Later submissions of this tree look at it anew. False: it was verified, or submitted, since
// `before`, and stays.
Result<bool> forget_snapshot(db::Transaction& transaction, std::string_view tree, WallTime before);

// Since when a supervisor may have sent outputs that no row names yet; nothing where none does.
Result<std::optional<WallTime>> oldest_finalizing(db::Db& db);

// Includes deleted runs.
Result<bool> knows_run(db::Db& db, std::string_view id);

}  // namespace trainyard::store
