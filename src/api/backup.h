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
// The manifest names the key file, with which whoever has the backup reads every secret in it;
// KeyFile::leave_out keeps that out, and the manifest says so.
enum class KeyFile { copy, leave_out };
Result<wire::Json> backup_to(const BackupParts& parts, const fs::path& folder,
                             KeyFile key = KeyFile::copy);

// Makes `home`, new or without a database, what `folder` holds. No server may run there. A restore
// that was cut short has no database either and can be done again. `key` (may be empty) is the key
// file of a backup that has none; `invalid` when it is another home's. The manifest that is
// returned has "missingKey": true where no key was restored and secrets need one.
Result<wire::Json> restore(const fs::path& folder, const Home& home, const fs::path& key = {});

}  // namespace trainyard::api
