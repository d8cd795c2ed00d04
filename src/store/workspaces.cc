#include "store/workspaces.h"

#include "base/check.h"
#include "base/id.h"
#include "base/text.h"
#include "store/computes.h"

namespace trainyard::store {
namespace {

constexpr std::string_view kDefault = "default";

constexpr std::string_view kSelectWorkspace =
    "SELECT id, name, subscription_id, resource_group, created_by, created, image_build_compute, "
    "retention_s, access, location FROM workspaces ";

Workspace read_workspace(const db::Statement& row) {
  return {.id = row.integer(0),
          .name = row.text(1),
          .subscription_id = row.text(2),
          .resource_group = row.text(3),
          .location = row.text(9),
          .created_by = row.text(4),
          .created = row.time(5),
          .image_build_compute = row.text(6),
          .access = access_from(row.text(8)).value_or(Access::members),
          .retention = seconds(row.integer(7))};
}

// not_found, and what was perhaps meant.
Error no_such_workspace(db::Db& db, std::string_view name) {
  std::vector<std::string> names;
  if (const auto all = list_workspaces(db)) {
    for (const Workspace& workspace : *all) names.push_back(workspace.name);
  }
  const std::string guess = nearest(name, names);
  return {ErrorKind::not_found, "workspace '" + std::string(name) + "' does not exist",
          (guess.empty() ? std::string() : "Did you mean '" + guess + "'? ") +
              "Make one with: trainyard workspace create -w NAME"};
}

}  // namespace

Result<std::vector<Workspace>> list_workspaces(db::Db& db) {
  std::vector<Workspace> workspaces;
  TRY_SET(db::Statement rows,
          db.query(std::string(kSelectWorkspace) + "WHERE deleted IS NULL ORDER BY name"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return workspaces;
    workspaces.push_back(read_workspace(rows));
  }
}

Result<Workspace> load_workspace(db::Db& db, std::string_view name) {
  TRY_SET(db::Statement row,
          db.query(std::string(kSelectWorkspace) + "WHERE name = ? AND deleted IS NULL", {name}));
  TRY_SET(const bool any, row.next());
  if (!any) return std::unexpected(no_such_workspace(db, name));
  return read_workspace(row);
}

Result<std::vector<Experiment>> list_experiments(db::Db& db, std::string_view workspace) {
  TRY_SET(const Workspace in, load_workspace(db, workspace));
  std::vector<Experiment> experiments;
  TRY_SET(db::Statement rows,
          db.query("SELECT id, name, created, run_count FROM experiments WHERE workspace_id = ? "
                   "AND deleted IS NULL ORDER BY id DESC",
                   {in.id}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return experiments;
    experiments.push_back({.id = rows.integer(0),
                           .workspace = in.name,
                           .name = rows.text(1),
                           .run_count = rows.integer(3),
                           .created = rows.time(2)});
  }
}

Result<Workspace> insert_workspace(db::Transaction& transaction, Workspace workspace) {
  TRY(check_name(workspace.name, "workspace"));
  TRY_SET(db::Statement row,
          transaction.query("INSERT INTO workspaces (name, subscription_id, resource_group, "
                            "created_by, created, image_build_compute, access, location) VALUES "
                            "(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING id",
                            {workspace.name, workspace.subscription_id, workspace.resource_group,
                             workspace.created_by, workspace.created, workspace.image_build_compute,
                             to_string(workspace.access), workspace.location}));
  TRY_SET(const bool made, row.next());
  if (!made) {
    return fail(ErrorKind::conflict, "workspace '" + workspace.name + "' exists already");
  }
  workspace.id = row.integer(0);
  return workspace;
}

Status set_build_compute(db::Transaction& transaction, std::string_view workspace,
                         std::string_view compute) {
  TRY_SET(const Workspace in, load_workspace(transaction.db(), workspace));
  if (!compute.empty()) {
    TRY_SET(db::Statement row,
            transaction.query("SELECT 1 FROM computes WHERE workspace_id = ? AND name = ? UNION "
                              "SELECT 1 FROM machines WHERE workspace_id = ? AND name = ?",
                              {in.id, compute, in.id, compute}));
    TRY_SET(const bool any, row.next());
    // It says what was perhaps meant.
    if (!any) TRY(load_compute(transaction.db(), workspace, compute));
  }
  TRY(transaction.run("UPDATE workspaces SET image_build_compute = ? WHERE id = ?",
                      {compute, in.id}));
  return {};
}

Status set_retention(db::Transaction& transaction, std::string_view workspace, seconds retention) {
  TRY_SET(const Workspace in, load_workspace(transaction.db(), workspace));
  TRY(transaction.run("UPDATE workspaces SET retention_s = ? WHERE id = ?",
                      {retention.count(), in.id}));
  return {};
}

Status remove_workspace(db::Transaction& transaction, std::string_view name, WallTime now) {
  TRY_SET(const Workspace workspace, load_workspace(transaction.db(), name));
  if (name == kDefault) {
    return fail(ErrorKind::conflict, "workspace 'default' belongs to the home and stays");
  }
  {
    TRY_SET(db::Statement open,
            transaction.query("SELECT COUNT(*), MIN(id) FROM runs WHERE workspace_id = ? AND "
                              "outcome = ''",
                              {workspace.id}));
    TRY_SET(const bool any, open.next());
    ENSURE(any);
    if (open.integer(0) > 0) {
      return fail(ErrorKind::conflict,
                  "workspace '" + workspace.name + "' has " + std::to_string(open.integer(0)) +
                      " runs that are not over, among them " + open.text(1),
                  "Wait for them, or cancel them with: trainyard run cancel");
    }
  }
  for (const std::string_view table :
       {"computes", "machines", "node_tokens", "secrets", "environments"}) {
    TRY(transaction.run("DELETE FROM " + std::string(table) + " WHERE workspace_id = ?",
                        {workspace.id}));
  }
  // No name has a '#': the old one is free for another workspace.
  TRY(transaction.run("UPDATE workspaces SET deleted = ?, name = name || '#' || id WHERE id = ?",
                      {now, workspace.id}));
  return {};
}

}  // namespace trainyard::store
