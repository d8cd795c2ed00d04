#pragma once

#include "base/file.h"

namespace trainyard {

// Copies a folder that others can write to into a new private one (0700, files 0600), so that what
// reads the copy reads what was there. Folders and regular files of the folder's own owner only:
// symbolic links, files with several names, FIFOs, devices and files of others are left out, and no
// link on the way is followed. An error where it is too deep or has too many files.
struct PrivateCopy {
  int64_t files = 0;
  int64_t left_out = 0;
};
Result<PrivateCopy> copy_private(const fs::path& from, const fs::path& to);

}  // namespace trainyard
