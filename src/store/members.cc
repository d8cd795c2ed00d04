#include "store/members.h"

#include "store/run_queries.h"
#include "store/workspaces.h"

namespace trainyard::store {
namespace {

// Columns id, name, access, the member's role, the first at `column`.
Result<WorkspaceAccess> read_access(const db::Statement& row, int column) {
  WorkspaceAccess access{.id = row.integer(column), .name = row.text(column + 1)};
  // A word of a later version lets nobody in that this one would not.
  access.access = access_from(row.text(column + 2)).value_or(Access::members);
  if (!row.is_null(column + 3)) {
    TRY_SET(access.member, role_from(row.text(column + 3)));
  }
  return access;
}

// Runs r whose user has lost the right to submit to their workspace. A name without a row in users
// is that of an account which uses the Unix socket, an admin, unless the user was deleted. Who
// never was a member of a workspace that was closed has lost nothing of what they submitted before.
constexpr std::string_view kWithoutRight =
    " FROM runs r JOIN workspaces w ON w.id = r.workspace_id "
    "LEFT JOIN users u ON u.name = r.user_name LEFT JOIN deleted_users d ON d.name = r.user_name "
    "LEFT JOIN workspace_members m ON m.workspace_id = w.id AND m.user_name = r.user_name "
    "LEFT JOIN former_members f ON f.workspace_id = w.id AND f.user_name = r.user_name "
    "WHERE COALESCE(u.role, iif(d.name IS NULL, 'admin', 'reader')) <> 'admin' "
    "AND (COALESCE(u.role, 'reader') = 'reader' OR "
    "(w.access = 'members' AND (m.role = 'reader' OR f.user_name IS NOT NULL))) ";
// Limits these to runs that are live and not withdrawn yet. Withdrawing revokes the attempt's
// token, so a run that its own user canceled before still counts.
constexpr std::string_view kNotWithdrawn =
    "AND r.final = 0 AND r.status <> '' AND (r.cancel_asked = 0 OR EXISTS "
    "(SELECT 1 FROM tokens t WHERE t.run = r.number AND t.revoked IS NULL)) ";

Result<std::vector<std::string>> first_column(db::Statement rows) {
  std::vector<std::string> texts;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return texts;
    texts.push_back(rows.text(0));
  }
}

}  // namespace

Result<std::vector<WorkspaceAccess>> all_workspace_access(db::Db& db, std::string_view user) {
  TRY_SET(db::Statement rows,
          db.query("SELECT w.id, w.name, w.access, m.role FROM workspaces w LEFT JOIN "
                   "workspace_members m ON m.workspace_id = w.id AND m.user_name = ? "
                   "ORDER BY w.name",
                   {user}));
  std::vector<WorkspaceAccess> all;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return all;
    TRY_SET(WorkspaceAccess one, read_access(rows, 0));
    all.push_back(std::move(one));
  }
}

Result<WorkspaceAccess> workspace_access(db::Db& db, std::string_view workspace,
                                         std::string_view user) {
  {
    TRY_SET(db::Statement row,
            db.query("SELECT w.id, w.name, w.access, m.role FROM workspaces w LEFT JOIN "
                     "workspace_members m ON m.workspace_id = w.id AND m.user_name = ? "
                     "WHERE w.name = ?",
                     {user, workspace}));
    TRY_SET(const bool any, row.next());
    if (any) return read_access(row, 0);
  }
  TRY(load_workspace(db, workspace));  // Its error has a hint.
  return fail(ErrorKind::not_found, "workspace '" + std::string(workspace) + "' does not exist");
}

Result<RunAccess> run_access(db::Db& db, const RunId& id, std::string_view user) {
  TRY_SET(db::Statement row,
          db.query("SELECT r.user_name, COALESCE(p.id, ''), w.id, w.name, w.access, m.role "
                   "FROM runs r JOIN workspaces w ON w.id = r.workspace_id "
                   "LEFT JOIN runs p ON p.number = r.parent LEFT JOIN workspace_members m "
                   "ON m.workspace_id = w.id AND m.user_name = ? WHERE r.id = ?",
                   {user, id.value}));
  TRY_SET(const bool any, row.next());
  if (!any) return no_such_run(id.value);
  RunAccess access{.id = id, .user = row.text(0), .parent = row.text(1), .workspace = {}};
  TRY_SET(access.workspace, read_access(row, 2));
  return access;
}

Result<std::vector<Member>> list_members(db::Db& db, std::string_view workspace) {
  TRY_SET(const Workspace in, load_workspace(db, workspace));
  TRY_SET(db::Statement rows, db.query("SELECT user_name, role, added_by, added FROM "
                                       "workspace_members WHERE workspace_id = ? ORDER BY 1",
                                       {in.id}));
  std::vector<Member> members;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return members;
    Member member{.user = rows.text(0), .added_by = rows.text(2), .added = rows.time(3)};
    TRY_SET(member.role, role_from(rows.text(1)));
    members.push_back(std::move(member));
  }
}

Status set_member(db::Transaction& transaction, std::string_view workspace, const Member& member) {
  TRY_SET(const Workspace in, load_workspace(transaction.db(), workspace));
  {
    TRY_SET(db::Statement user,
            transaction.query("SELECT 1 FROM users WHERE name = ?", {member.user}));
    TRY_SET(const bool any, user.next());
    if (!any) {
      return fail(ErrorKind::not_found, "user '" + member.user + "' does not exist",
                  "Make it with: trainyard user create " + member.user);
    }
  }
  TRY(
      transaction.run("INSERT INTO workspace_members (workspace_id, user_name, role, added_by, "
                      "added) VALUES (?, ?, ?, ?, ?) ON CONFLICT (workspace_id, user_name) "
                      "DO UPDATE SET role = excluded.role",
                      {in.id, member.user, to_string(member.role), member.added_by, member.added}));
  TRY(transaction.run("DELETE FROM former_members WHERE workspace_id = ? AND user_name = ?",
                      {in.id, member.user}));
  return set_access(transaction, workspace, Access::members);
}

Status remove_member(db::Transaction& transaction, std::string_view workspace,
                     std::string_view user) {
  TRY_SET(const Workspace in, load_workspace(transaction.db(), workspace));
  TRY_SET(const int64_t removed,
          transaction.run("DELETE FROM workspace_members WHERE workspace_id = ? AND user_name = ?",
                          {in.id, user}));
  if (removed > 0) {
    TRY(
        transaction.run("INSERT OR IGNORE INTO former_members (workspace_id, user_name) "
                        "VALUES (?, ?)",
                        {in.id, user}));
    return {};
  }
  return fail(ErrorKind::not_found,
              "user '" + std::string(user) + "' is not a member of workspace '" + in.name + "'",
              "List the members with: trainyard workspace share list -w " + in.name);
}

Result<std::vector<RunId>> runs_without_right(db::Db& db, std::string_view user, int limit) {
  TRY_SET(db::Statement rows,
          db.query("SELECT r.id" + std::string(kWithoutRight) + std::string(kNotWithdrawn) +
                       "AND r.user_name = ? ORDER BY r.status = 'Queued', r.number LIMIT ?",
                   {user, limit}));
  TRY_SET(const std::vector<std::string> ids, first_column(std::move(rows)));
  std::vector<RunId> runs;
  for (const std::string& id : ids) runs.push_back(RunId{id});
  return runs;
}

Result<std::vector<std::string>> users_without_right(db::Db& db) {
  TRY_SET(db::Statement rows, db.query("SELECT DISTINCT r.user_name" + std::string(kWithoutRight) +
                                       std::string(kNotWithdrawn)));
  return first_column(std::move(rows));
}

Result<bool> lacks_right(db::Db& db, int64_t run) {
  TRY_SET(db::Statement row,
          db.query("SELECT 1" + std::string(kWithoutRight) + "AND r.number = ?", {run}));
  return row.next();
}

Status revoke_attempt_tokens(db::Transaction& transaction, int64_t run, WallTime now) {
  TRY(transaction.run("UPDATE tokens SET revoked = ? WHERE run = ? AND revoked IS NULL",
                      {now, run}));
  return {};
}

Status set_access(db::Transaction& transaction, std::string_view workspace, Access access) {
  TRY_SET(const Workspace in, load_workspace(transaction.db(), workspace));
  TRY(transaction.run("UPDATE workspaces SET access = ? WHERE id = ?", {to_string(access), in.id}));
  return {};
}

}  // namespace trainyard::store
