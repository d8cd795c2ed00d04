#include "store/pending_outputs.h"

namespace trainyard::store {
namespace {

// A file above `path` or below it.
Result<bool> has_conflict(db::Db& db, int64_t run, const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    TRY_SET(db::Statement row, db.query("SELECT 1 FROM pending_outputs WHERE run = ? AND path = ?",
                                        {run, path.substr(0, slash)}));
    TRY_SET(const bool any, row.next());
    if (any) return true;
  }
  // '0' follows '/'.
  TRY_SET(db::Statement row, db.query("SELECT 1 FROM pending_outputs WHERE run = ? AND path > ? "
                                      "AND path < ? LIMIT 1",
                                      {run, path + "/", path + "0"}));
  return row.next();
}

}  // namespace

Result<std::vector<PendingOutput>> pending_outputs(db::Db& db, int64_t run) {
  std::vector<PendingOutput> outputs;
  TRY_SET(db::Statement rows,
          db.query("SELECT path, digest, size FROM pending_outputs WHERE run = ? ORDER BY path",
                   {run}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return outputs;
    outputs.push_back({rows.text(0), rows.text(1), rows.integer(2)});
  }
}

Result<int64_t> count_pending_outputs(db::Db& db, int64_t run) {
  TRY_SET(db::Statement row, db.query("SELECT COUNT(*) FROM pending_outputs WHERE run = ?", {run}));
  TRY_SET(const bool any, row.next());
  return any ? row.integer(0) : 0;
}

Result<bool> has_pending_outputs(db::Db& db, const RunId& run) {
  TRY_SET(db::Statement row, db.query("SELECT 1 FROM runs r JOIN pending_outputs o ON "
                                      "o.run = r.number WHERE r.id = ? LIMIT 1",
                                      {run.value}));
  return row.next();
}

Result<std::vector<int64_t>> runs_with_pending_outputs(db::Db& db) {
  std::vector<int64_t> runs;
  TRY_SET(db::Statement rows, db.query("SELECT DISTINCT run FROM pending_outputs"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return runs;
    runs.push_back(rows.integer(0));
  }
}

Status add_pending_output(db::Transaction& transaction, int64_t run, const PendingOutput& output) {
  TRY_SET(const bool conflict, has_conflict(transaction.db(), run, output.path));
  if (conflict) {
    return fail(ErrorKind::conflict,
                "'" + output.path +
                    "': the run's outputs have a file where this needs a folder, "
                    "or a folder where this is a file");
  }
  TRY(
      transaction.run("INSERT INTO pending_outputs (run, path, digest, size) VALUES (?, ?, ?, ?) "
                      "ON CONFLICT (run, path) DO UPDATE SET digest = excluded.digest, "
                      "size = excluded.size",
                      {run, output.path, output.digest, output.size}));
  return {};
}

Status remove_pending_outputs(db::Transaction& transaction, int64_t run,
                              const std::vector<PendingOutput>& outputs) {
  for (const PendingOutput& output : outputs) {
    TRY(transaction.run("DELETE FROM pending_outputs WHERE run = ? AND path = ? AND digest = ?",
                        {run, output.path, output.digest}));
  }
  return {};
}

}  // namespace trainyard::store
