#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"

namespace trainyard::supervisor {

struct FileStamp {
  int64_t size = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

// The files in a run's working folder, and its folders with a slash at their end and no stamp.
using WorkingFiles = std::map<std::string, FileStamp>;

// Leaves out outputs/, logs/, __pycache__ and names that begin with a dot. No file is opened. None
// for a folder of more than 10,000 names.
std::optional<WorkingFiles> working_files(const fs::path& work);

// A sentence on the files and folders that are new or changed in `after`, at most ten of them;
// empty: there are none.
std::string unkept_warning(const WorkingFiles& before, const WorkingFiles& after);

}  // namespace trainyard::supervisor
