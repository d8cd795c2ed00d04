#include "store/run_files.h"

#include "base/check.h"
#include "store/run_queries.h"
#include "store/run_rows.h"

namespace trainyard::store {
namespace {

constexpr int64_t kFilesMax = 100'000;  // Of one run: a script that names files in a loop.

}  // namespace

Result<std::vector<Store::RunFile>> list_run_files(db::Db& db, const RunId& run) {
  TRY_SET(const RunHead head, run_head(db, run));
  std::vector<Store::RunFile> files;
  TRY_SET(
      db::Statement rows,
      db.query("SELECT number, path FROM run_files WHERE run = ? ORDER BY number", {head.number}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return files;
    files.push_back({rows.integer(0), rows.text(1), false});
  }
}

Result<std::optional<Store::RunFile>> find_run_file(db::Db& db, const RunId& run,
                                                    std::string_view path) {
  TRY_SET(db::Statement row,
          db.query("SELECT f.number FROM run_files f JOIN runs r ON r.number = f.run "
                   "WHERE r.id = ? AND f.path = ?",
                   {run.value, path}));
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<Store::RunFile>();
  return std::optional<Store::RunFile>({row.integer(0), std::string(path), false});
}

Result<Store::RunFile> get_or_create_run_file(db::Transaction& transaction, const RunId& run,
                                              std::string_view path) {
  TRY_SET(const RunHead head, run_head(transaction.db(), run));
  TRY_SET(const std::optional<Store::RunFile> known, find_run_file(transaction.db(), run, path));
  if (known) return *known;
  int64_t number = 1;
  {
    TRY_SET(db::Statement last,
            transaction.query("SELECT COALESCE(MAX(number), 0) FROM run_files WHERE run = ?",
                              {head.number}));
    TRY_SET(const bool any, last.next());
    ENSURE(any);
    number = last.integer(0) + 1;
  }
  if (number > kFilesMax) {
    return fail(ErrorKind::invalid,
                "run " + run.value + " has " + std::to_string(kFilesMax) + " log files already");
  }
  TRY(transaction.run("INSERT INTO run_files (run, number, path) VALUES (?, ?, ?)",
                      {head.number, number, path}));
  return Store::RunFile{number, std::string(path), true};
}

}  // namespace trainyard::store
