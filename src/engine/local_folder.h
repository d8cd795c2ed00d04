#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "model/assignment.h"

namespace trainyard::engine {

// What the supervisor of an attempt's folder says of itself by its lock file
// (supervisor/alive_lock.h): a record lock, and "MARK\n", then "done\n".
struct LockFile {
  pid_t owner = 0;   // The supervisor at work; 0: none.
  std::string mark;  // Of the attempt's processes; empty: none was started.
  bool done = false;
};
LockFile parse_lock(std::string_view text);
// As it is now; one that was never made reads as empty.
Result<LockFile> read_lock(const fs::path& folder);

// Makes the folder and writes assignment.json, 0600: it holds the token.
Status write_assignment(const fs::path& folder, const Assignment& assignment);

}  // namespace trainyard::engine
