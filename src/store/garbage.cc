#include "store/garbage.h"

#include "store/run_list.h"
#include "store/run_queries.h"
#include "store/workspaces.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

void add_text(const db::Statement& row, int column, std::vector<std::string>& texts) {
  if (row.is_null(column)) return;
  std::string text(row.text(column));
  if (!text.empty()) texts.push_back(std::move(text));
}

// The first column of each row.
Status add_texts(db::Statement rows, std::vector<std::string>& texts) {
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return {};
    add_text(rows, 0, texts);
  }
}

}  // namespace

Result<References> run_references(db::Db& db, int64_t after, int limit) {
  References found;
  {
    TRY_SET(db::Statement rows,
            db.query("SELECT r.number, r.outputs, json_extract(s.spec, '$.snapshot'), "
                     "json_extract(s.spec, '$.environment.recipe.context'), "
                     "json_extract(s.spec, '$.environment.hash') "
                     "FROM runs r JOIN run_specs s ON s.run = r.number "
                     "WHERE r.number > ? ORDER BY r.number LIMIT ?",
                     {after, limit}));
    while (true) {
      TRY_SET(const bool more, rows.next());
      if (!more) break;
      found.last = rows.integer(0);
      for (const int column : {1, 2, 3}) add_text(rows, column, found.trees);
      add_text(rows, 4, found.environments);
    }
  }
  if (found.last == 0) return found;
  for (const std::string_view table : {"attempts", "attempt_nodes"}) {
    TRY_SET(db::Statement rows,
            db.query("SELECT json_extract(outcome, '$.outputs') FROM " + std::string(table) +
                         " WHERE run > ? AND run <= ? AND outcome <> ''",
                     {after, found.last}));
    TRY(add_texts(std::move(rows), found.trees));
  }
  return found;
}

Result<References> references_of(db::Db& db, const RunId& run) {
  TRY_SET(db::Statement row,
          db.query("SELECT r.number, r.outputs, json_extract(s.spec, '$.snapshot'), "
                   "json_extract(s.spec, '$.environment.recipe.context'), "
                   "json_extract(s.spec, '$.environment.hash') "
                   "FROM runs r JOIN run_specs s ON s.run = r.number WHERE r.id = ?",
                   {run.value}));
  TRY_SET(const bool any, row.next());
  if (!any) return no_such_run(run.value);
  References found;
  found.last = row.integer(0);
  for (const int column : {1, 2, 3}) add_text(row, column, found.trees);
  add_text(row, 4, found.environments);
  return found;
}

Result<std::vector<std::string>> newest_snapshots(db::Db& db, std::string_view workspace,
                                                  int runs) {
  TRY_SET(const std::vector<int64_t> numbers,
          list_run_numbers(db,
                           {.workspace = std::string(workspace),
                            .children = true,
                            .archived = RunFilter::Archived::any,
                            .deleted = RunFilter::Deleted::any},
                           runs));
  std::vector<std::string> trees;
  TRY_SET(db::Statement rows,
          db.query("SELECT DISTINCT json_extract(spec, '$.snapshot') FROM run_specs WHERE run IN "
                   "(SELECT value FROM json_each(?))",
                   {wire::dump(wire::Json(numbers))}));
  TRY(add_texts(std::move(rows), trees));
  return trees;
}

Result<bool> workspace_knows(db::Db& db, std::string_view workspace, std::string_view tree) {
  TRY_SET(db::Statement row,
          db.query("SELECT 1 FROM workspace_trees t JOIN workspaces w ON w.id = t.workspace_id "
                   "WHERE w.name = ? AND t.tree = ?",
                   {workspace, tree}));
  return row.next();
}

Result<std::vector<std::string>> environment_trees(db::Db& db) {
  std::vector<std::string> trees;
  for (const std::string_view table : {"environments", "curated_environments"}) {
    TRY_SET(db::Statement rows, db.query("SELECT json_extract(environment, '$.recipe.context') "
                                         "FROM " +
                                         std::string(table)));
    TRY(add_texts(std::move(rows), trees));
  }
  return trees;
}

Result<std::vector<VerifiedTree>> verified_trees(db::Db& db, std::string_view after, int limit) {
  std::vector<VerifiedTree> trees;
  TRY_SET(db::Statement rows,
          db.query("SELECT tree, verified FROM snapshots WHERE tree > ? ORDER BY tree LIMIT ?",
                   {after, limit}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return trees;
    trees.push_back({rows.text(0), rows.time(1)});
  }
}

Result<bool> forget_snapshot(db::Transaction& transaction, std::string_view tree, WallTime before) {
  TRY_SET(const int64_t gone,
          transaction.run("DELETE FROM snapshots WHERE tree = ? AND verified < ?", {tree, before}));
  if (gone > 0) TRY(transaction.run("DELETE FROM workspace_trees WHERE tree = ?", {tree}));
  return gone > 0;
}

Result<std::optional<WallTime>> oldest_finalizing(db::Db& db) {
  TRY_SET(db::Statement row,
          // By what supervisors report: a canceled run hands its outputs in too.
          db.query("SELECT MIN(a.placed) FROM runs r JOIN attempts a "
                   "ON a.run = r.number AND a.number = r.attempt "
                   "WHERE r.final = 0 AND r.status IN ('Provisioning', 'Preparing', 'Starting', "
                   "'Running', 'Finalizing', 'CancelRequested') "
                   "AND (a.phase = 'finalizing' OR EXISTS (SELECT 1 FROM attempt_nodes n "
                   "WHERE n.run = r.number AND n.attempt = r.attempt "
                   "AND n.phase = 'finalizing'))"));
  TRY_SET(const bool any, row.next());
  if (!any || row.is_null(0)) return std::optional<WallTime>();
  return std::optional<WallTime>(row.time(0));
}

Result<bool> knows_run(db::Db& db, std::string_view id) {
  TRY_SET(db::Statement row, db.query("SELECT 1 FROM runs WHERE id = ?", {id}));
  return row.next();
}

}  // namespace trainyard::store
