#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/run.h"

// The members of workspaces, and what decides whom a workspace lets in.
namespace trainyard::store {

// A workspace as one user meets it.
struct WorkspaceAccess {
  int64_t id = 0;
  std::string name;
  Access access = Access::everyone;
  std::optional<Role> member;  // The user's role in it; nothing: not a member.
};
Result<WorkspaceAccess> workspace_access(db::Db& db, std::string_view workspace,
                                         std::string_view user);  // not_found.
Result<std::vector<WorkspaceAccess>> all_workspace_access(db::Db& db, std::string_view user);

// A run, as far as it decides who may read and change it.
struct RunAccess {
  RunId id;
  std::string user;
  std::string parent;  // A run's id; empty: none.
  WorkspaceAccess workspace;
};
Result<RunAccess> run_access(db::Db& db, const RunId& id, std::string_view user);

Result<std::vector<Member>> list_members(db::Db& db, std::string_view workspace);
// Adds a member or changes its role. The workspace is for its members from then on.
Status set_member(db::Transaction& transaction, std::string_view workspace, const Member& member);
Status remove_member(db::Transaction& transaction, std::string_view workspace,
                     std::string_view user);
// Runs of `user` that are not over, in workspaces to which they may not submit any more; those that
// have a place first. Runs that were withdrawn before are not among them.
Result<std::vector<RunId>> runs_without_right(db::Db& db, std::string_view user, int limit);
// Users who have such runs.
Result<std::vector<std::string>> users_without_right(db::Db& db);
// Whether the user of the run with this number has lost the right to submit it.
Result<bool> lacks_right(db::Db& db, int64_t run);
Status revoke_attempt_tokens(db::Transaction& transaction, int64_t run, WallTime now);
Status set_access(db::Transaction& transaction, std::string_view workspace, Access access);

}  // namespace trainyard::store
