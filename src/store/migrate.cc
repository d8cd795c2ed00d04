#include "store/migrate.h"

#include <vector>

#include "base/check.h"

namespace trainyard::store {

// The *.sql files of this room; made by the build.
std::string_view embedded(std::string_view name);

std::span<const Migration> migrations() {
  static const std::vector<Migration> kSteps = {
      {1, embedded("migrations/001.sql")},  {2, embedded("migrations/002.sql")},
      {3, embedded("migrations/003.sql")},  {4, embedded("migrations/004.sql")},
      {5, embedded("migrations/005.sql")},  {6, embedded("migrations/006.sql")},
      {7, embedded("migrations/007.sql")},  {8, embedded("migrations/008.sql")},
      {9, embedded("migrations/009.sql")},  {10, embedded("migrations/010.sql")},
      {11, embedded("migrations/011.sql")}, {12, embedded("migrations/012.sql")},
      {13, embedded("migrations/013.sql")}, {14, embedded("migrations/014.sql")},
      {15, embedded("migrations/015.sql")}, {16, embedded("migrations/016.sql")},
      {17, embedded("migrations/017.sql")}, {18, embedded("migrations/018.sql")},
  };
  ENSURE(!kSteps.front().sql.empty());
  return kSteps;
}

Status migrate(db::Db& db, std::span<const Migration> steps) {
  ENSURE(!steps.empty());
  const int known = steps.back().version;
  TRY_SET(const int before, db.version());
  if (before > known) {
    return fail(ErrorKind::conflict,
                "this home has version " + std::to_string(before) +
                    " of the database; this program knows versions up to " + std::to_string(known),
                "Use the newer trainyard that wrote it, or bring back a backup of before with: "
                "trainyard server restore");
  }
  for (const Migration& step : steps) {
    if (step.version <= before) continue;
    const std::string doing = "upgrade the database to version " + std::to_string(step.version);
    TRY_SET(db::Transaction transaction, db::Transaction::begin(db, db::Access::write));
    TRY_WITHIN(doing, db.script(step.sql));
    TRY_WITHIN(doing, db.set_version(step.version));
    TRY_WITHIN(doing, transaction.commit());
  }
  return {};
}

}  // namespace trainyard::store
