#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
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

// The fields of the line of a file like /etc/passwd that has `id` for its third.
std::optional<std::vector<std::string>> account_of(const std::string& text, unsigned id);

}  // namespace trainyard::container
