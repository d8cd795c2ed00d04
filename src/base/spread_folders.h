#pragma once

#include "base/file.h"

namespace trainyard {

// ext4 looks for a free inode near its folder and passes one by one over those that were deleted in
// the last minutes: after a large removal nearby, 5,000 creates took 1.2 s instead of 0.3. Below a
// folder with this mark each new folder gets a part of the disk of its own. Elsewhere a no-op.
void spread_folders_below(const fs::path& folder);

}  // namespace trainyard
