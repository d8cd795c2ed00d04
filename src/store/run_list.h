#pragma once

#include <vector>

#include "db/db.h"
#include "store/store.h"

// Which runs are in a list. Every filter is answered from ranges of an index in which all columns
// before the run's number are given, so that a page costs what it has, not what the history has.
namespace trainyard::store {

// The numbers of the newest `limit` runs that `filter` leaves, newest first. not_found: no such
// workspace; invalid: no such status.
Result<std::vector<int64_t>> list_run_numbers(db::Db& db, const RunFilter& filter, int limit);

}  // namespace trainyard::store
