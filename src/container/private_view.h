#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "container/bubblewrap_file.h"
#include "container/bubblewrap_plan.h"

namespace trainyard::container {

// A run without a container that asks for absolute paths ("/data") gets its own view of the
// machine: everything where it is, and these paths as it wants them. Two runs on a node that want
// the same path never meet.
//
// `folder` is the run's own, where it starts; none of the paths may hide it. `invalid` for a path
// that cannot be shown, with what to do.
Result<Carried> plan_private_view(const std::vector<Bind>& binds,
                                  const std::vector<std::string>& command, const fs::path& folder,
                                  const Submitter& submitter);

// The words to execute in place of the rank's own; `program` and `file` as with Bubblewrap, `note`
// is Plan::note. The rank's variables are all handed on, signals and exit codes too. `unavailable`
// where bubblewrap does not work, with what to do.
Result<std::vector<std::string>> private_view_command(const std::string& program,
                                                      const std::vector<Bind>& binds,
                                                      const std::vector<std::string>& command,
                                                      const fs::path& folder, const fs::path& file,
                                                      const fs::path& note);

}  // namespace trainyard::container
