#pragma once

#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/run.h"

namespace trainyard::store {

Result<std::vector<Workspace>> list_workspaces(db::Db& db);
Result<Workspace> load_workspace(db::Db& db, std::string_view name);  // not_found, with a guess.
Result<std::vector<Experiment>> list_experiments(db::Db& db, std::string_view workspace);
Result<Workspace> insert_workspace(db::Transaction& transaction, Workspace workspace);
// Where environments are built; empty: on the server. not_found: a compute or machine of the
// workspace, by name.
Status set_build_compute(db::Transaction& transaction, std::string_view workspace,
                         std::string_view compute);
// Runs that ended longer ago are deleted; 0: none are.
Status set_retention(db::Transaction& transaction, std::string_view workspace, seconds retention);
// Hides it with its experiments and runs, which collection purges later by batches (deletion.h):
// 100,000 runs hold nobody up. conflict while one of them is not over.
Status remove_workspace(db::Transaction& transaction, std::string_view name, WallTime now);

}  // namespace trainyard::store
