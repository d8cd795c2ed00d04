#pragma once

#include "cli/submission.h"

namespace trainyard::cli {

// Prints what submit_run() would send and run: the files, their sizes, what is ignored, the
// command, target and environment. Asks no server, submits nothing. The exit code.
Result<int> dry_run(Context& context, const Submission& submission);

}  // namespace trainyard::cli
