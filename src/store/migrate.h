#pragma once

#include <span>
#include <string_view>

#include "db/db.h"

namespace trainyard::store {

// One step from the version before it.
struct Migration {
  int version = 0;
  std::string_view sql;
};

// The steps of this program, oldest first; the last is the version it works with.
std::span<const Migration> migrations();

// Brings the database to the last of `steps`, each in a transaction of its own: a crash between two
// leaves a whole older version. A database of a newer program is refused (`conflict`).
Status migrate(db::Db& db, std::span<const Migration> steps);

}  // namespace trainyard::store
