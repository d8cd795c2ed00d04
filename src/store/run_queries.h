#pragma once

#include <string>
#include <vector>

#include "db/db.h"
#include "model/run.h"
#include "store/store.h"

// Runs as they are read; each over a connection that sees one state throughout.
namespace trainyard::store {

enum class Detail { brief, whole };  // whole: with attempts and events.

Result<Run> load_run(db::Db& db, const RunId& id, Detail detail);
Result<RunId> find_run_id(db::Db& db, std::string_view beginning);
Result<std::vector<Run>> list_runs(db::Db& db, const RunFilter& filter);
Result<int64_t> count_runs_in(db::Db& db, RunStatus status);
Result<WallTime> newest_time_in(db::Db& db);

// A row of: number, node, placed, started, ended, cpu_seconds, memory_bytes, memory_peak_bytes,
// outcome, gpus.
Result<Attempt> read_attempt(const db::Statement& row);
std::unexpected<Error> no_such_run(std::string_view id);

}  // namespace trainyard::store
