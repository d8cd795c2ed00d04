#include "store/secrets.h"

#include "base/text.h"

namespace trainyard::store {
namespace {

std::unexpected<Error> no_such_secret(db::Db& db, int64_t workspace, std::string_view name) {
  std::vector<std::string> known;
  if (const auto all = list_secrets(db, workspace)) {
    for (const SecretHead& secret : *all) known.push_back(secret.name);
  }
  const std::string near = nearest(name, known);
  return fail(ErrorKind::not_found, "secret '" + std::string(name) + "' does not exist",
              (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                  std::string("Make it with: trainyard secret set ") + std::string(name));
}

}  // namespace

Result<std::vector<SecretHead>> list_secrets(db::Db& db, int64_t workspace) {
  std::vector<SecretHead> secrets;
  TRY_SET(db::Statement rows,
          db.query("SELECT name, created_by, created, changed FROM secrets WHERE workspace_id = ? "
                   "ORDER BY created DESC, name",
                   {workspace}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return secrets;
    secrets.push_back({rows.text(0), rows.text(1), rows.time(2), rows.time(3)});
  }
}

Status set_secret(db::Transaction& transaction, int64_t workspace, std::string_view name,
                  std::string_view sealed, std::string_view by, WallTime now) {
  TRY(
      transaction.run("INSERT INTO secrets (workspace_id, name, sealed, created_by, created, "
                      "changed) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (workspace_id, name) "
                      "DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed",
                      {workspace, name, sealed, by, now, now}));
  return {};
}

Status delete_secret(db::Transaction& transaction, int64_t workspace, std::string_view name) {
  TRY_SET(const int64_t changed,
          transaction.run("DELETE FROM secrets WHERE workspace_id = ? AND name = ?",
                          {workspace, name}));
  if (changed > 0) return {};
  Error error = no_such_secret(transaction.db(), workspace, name).error();
  // Who deletes does not want to make it.
  error.hint =
      error.hint.substr(0, error.hint.find("Make it")) + "Those there are: trainyard secret list";
  return std::unexpected(std::move(error));
}

Result<std::string> sealed_secret(db::Db& db, int64_t workspace, std::string_view name) {
  {
    TRY_SET(db::Statement row,
            db.query("SELECT sealed FROM secrets WHERE workspace_id = ? AND name = ?",
                     {workspace, name}));
    TRY_SET(const bool any, row.next());
    if (any) return row.text(0);
  }
  return no_such_secret(db, workspace, name);
}

Status check_secrets(db::Db& db, int64_t workspace, const std::vector<std::string>& names) {
  for (const std::string& name : names) TRY(sealed_secret(db, workspace, name));
  return {};
}

}  // namespace trainyard::store
