#pragma once

#include "cli/output.h"
#include "dialects/job.h"

namespace trainyard::cli {

// The job file again, overrides applied, with its paths from `folder`: `job create --save-as`.
Json job_file(const dialects::Document& document, const fs::path& folder);

}  // namespace trainyard::cli
