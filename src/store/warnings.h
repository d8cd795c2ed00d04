#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"

// Warnings on a run: what its owner should know and what did not stop it.
namespace trainyard::store {

inline constexpr size_t kCausesMax = 10;  // Of one kind and run; those after it share a warning.

struct RunWarning {
  std::string kind;   // "records_skipped"
  std::string cause;  // A run has one warning for each cause of a kind.
  std::string text;   // The first text of a cause stays, cut to a few hundred bytes.
  int64_t count = 1;  // Adds up.
};
// Raise the run's version with save_run(), so that readers see it.
Status warn_run(db::Transaction& transaction, int64_t run, const RunWarning& warning);

// In plain sentences, with how often each happened where that is more than once.
Result<std::vector<std::string>> load_warnings(db::Db& db, int64_t run);

}  // namespace trainyard::store
