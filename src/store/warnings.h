#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"

// Warnings on a run: what its owner should know and what did not stop it.
namespace trainyard::store {

// `kind` names the cause ("records_skipped"); a run has one warning a kind. The first text stays,
// cut to a few hundred bytes; `count` adds up. Raise the run's version with save_run(), so that
// readers see it.
Status warn_run(db::Transaction& transaction, int64_t run, std::string_view kind,
                std::string_view text, int64_t count = 1);

// In plain sentences, with how often each happened where that is more than once.
Result<std::vector<std::string>> load_warnings(db::Db& db, int64_t run);

}  // namespace trainyard::store
