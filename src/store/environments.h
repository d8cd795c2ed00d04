#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "db/db.h"
#include "model/environment_record.h"

// The environments that people registered, of each workspace; and the table of curated ones, which
// is one for all workspaces and an admin's to change.
namespace trainyard::store {

// ---- registered ----

struct EnvironmentFilter {
  std::string name;       // Empty: all, of each the latest version; else all versions of it.
  bool archived = false;  // Those too.
};
// Newest first.
Result<std::vector<EnvironmentRecord>> list_environments(db::Db& db, std::string_view workspace,
                                                         const EnvironmentFilter& filter);
// Version "": the newest that is not archived. Nothing where there is none.
Result<std::optional<EnvironmentRecord>> find_environment(db::Db& db, int64_t workspace,
                                                          const EnvironmentName& name);

struct EnvironmentMade {
  EnvironmentRecord record;
  bool made = false;  // false: a version that does the same was there.
};
// Without a version the next number, unless a version does the same. With one: `conflict` where
// that version does something else.
Result<EnvironmentMade> register_environment(db::Transaction& transaction,
                                             std::string_view workspace, EnvironmentRecord record);
// All versions where none is named; not_found. What is not archived any more is not deleted either
// (store/deletion.h).
Status archive_environment(db::Transaction& transaction, std::string_view workspace,
                           const EnvironmentName& name, bool archived);
// Hides all versions where none is named, until they are brought back; not_found. `denied` where
// `owner` is given and a version is another's.
Status delete_environment(db::Transaction& transaction, std::string_view workspace,
                          const EnvironmentName& name, WallTime when, std::string_view owner = {});

// Those that are built from a folder, with its tree; of every workspace.
Result<std::vector<EnvironmentRecord>> environments_with_trees(db::Db& db);

// ---- curated ----

Result<std::vector<EnvironmentRecord>> list_curated(db::Db& db);  // By name.
// By its name in any case; else the longest pattern ("AzureML-sklearn-*") it is like.
Result<std::optional<EnvironmentRecord>> find_curated(db::Db& db, std::string_view name);
Status set_curated(db::Transaction& transaction, const EnvironmentRecord& record);
Status delete_curated(db::Transaction& transaction, std::string_view name);  // not_found

// ---- both ----

// Registered, else curated; not_found with the nearest names.
Result<EnvironmentRecord> resolve_environment(db::Db& db, std::string_view workspace,
                                              const EnvironmentName& name);

// The run that builds an environment on a compute, or has built it; the newest of them.
Result<std::optional<RunId>> build_run(db::Db& db, std::string_view hash);
Status set_build_run(db::Transaction& transaction, std::string_view hash, const RunId& run);

}  // namespace trainyard::store
