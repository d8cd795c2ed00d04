#include "store/warnings.h"

#include "base/text.h"

namespace trainyard::store {
namespace {

constexpr size_t kWarningMax = 400;  // Bytes of a text; some of them are a script's own.

}  // namespace

Status warn_run(db::Transaction& transaction, int64_t run, std::string_view kind,
                std::string_view text, int64_t count) {
  // A cut inside a character leaves bytes that are not UTF-8.
  const std::string cut = to_utf8(text.substr(0, kWarningMax));
  TRY(
      transaction.run("INSERT INTO run_warnings (run, kind, count, text) VALUES (?, ?, ?, ?) "
                      "ON CONFLICT (run, kind) DO UPDATE SET count = count + excluded.count",
                      {run, kind, count, cut}));
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
