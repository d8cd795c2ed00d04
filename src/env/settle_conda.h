#pragma once

#include "base/file.h"
#include "base/result.h"

namespace trainyard::env {

// Files of conda's packages hold the path they were installed at. Puts `place` there instead, for
// an environment that is to be moved there: from where it was built to its place on a shelf, or to
// a node's. `invalid` where the new path does not fit into a binary file. Nothing happens to a root
// that is not conda's.
Status settle_conda(const fs::path& root, const fs::path& place);

}  // namespace trainyard::env
