#pragma once

#include "base/clock.h"
#include "base/home.h"
#include "store/store.h"
#include "wire/json.h"

namespace trainyard::api {

struct BackupParts {
  const Home& home;
  store::Store& store;
  Clock& clock;
};

// Copies the home into `folder`, absolute and empty or new, while the server runs; returns the
// manifest. The database is copied first, then what it speaks of: so all of that is in the copy.
// Blobs never change and are linked where the file system allows. The manifest is written last: a
// copy that was cut short has none.
Result<wire::Json> backup_to(const BackupParts& parts, const fs::path& folder);

// Makes `home`, new or without a database, what `folder` holds. No server may run there. A restore
// that was cut short has no database either and can be done again.
Result<wire::Json> restore(const fs::path& folder, const Home& home);

}  // namespace trainyard::api
