#pragma once

#include <string>

#include "base/file.h"
#include "base/result.h"
#include "container/account.h"
#include "container/bubblewrap_file.h"
#include "container/plan.h"

namespace trainyard::container {

// Who runs a container without an engine, and where.
struct Submitter {
  std::string bwrap;  // Its file.
  unsigned uid = 0;
  unsigned gid = 0;
  std::string name = {};  // Empty: the machine knows none.
};

// What bwrap is told of a plan. Reads the unpacked image; writes file.passwd and file.group where
// the image does not know who runs it. Of the user's arguments, what needs an engine is `invalid`.
Result<Carried> plan_bubblewrap(const Plan& plan, const Submitter& submitter, const fs::path& file);

}  // namespace trainyard::container
