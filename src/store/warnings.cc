#include "store/warnings.h"

#include "base/text.h"

namespace trainyard::store {
namespace {

constexpr size_t kWarningMax = 400;  // Bytes of a text; some of them are a script's own.

// A cut inside a character leaves bytes that are not UTF-8.
std::string cut(std::string_view text) { return to_utf8(text.substr(0, kWarningMax)); }

}  // namespace

Status warn_run(db::Transaction& transaction, int64_t run, const RunWarning& warning) {
  // The column `kind` holds the cause too.
  std::string key = warning.kind + ":" + cut(warning.cause);
  std::string text = warning.text;
  TRY_SET(const int64_t counted,
          transaction.run("UPDATE run_warnings SET count = count + ? WHERE run = ? AND kind = ?",
                          {warning.count, run, key}));
  if (counted > 0) return {};
  {
    TRY_SET(db::Statement row,  // ';' follows ':'.
            transaction.query("SELECT COUNT(*) FROM run_warnings WHERE run = ? AND kind >= ? AND "
                              "kind < ?",
                              {run, warning.kind + ":", warning.kind + ";"}));
    TRY_SET(const bool any, row.next());
    if (any && row.integer(0) >= static_cast<int64_t>(kCausesMax)) {
      key = warning.kind + ";";
      text = "and more, of other causes, the first: " + text;
    }
  }
  TRY(
      transaction.run("INSERT INTO run_warnings (run, kind, count, text) VALUES (?, ?, ?, ?) "
                      "ON CONFLICT (run, kind) DO UPDATE SET count = count + excluded.count",
                      {run, key, warning.count, cut(text)}));
  return {};
}

Result<std::vector<std::string>> load_warnings(db::Db& db, int64_t run) {
  TRY_SET(db::Statement rows,
          db.query("SELECT text, count FROM run_warnings WHERE run = ? ORDER BY kind", {run}));
  std::vector<std::string> warnings;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return warnings;
    const int64_t count = rows.integer(1);
    warnings.push_back(rows.text(0) + (count > 1 ? " (" + std::to_string(count) + " times)" : ""));
  }
}

}  // namespace trainyard::store
