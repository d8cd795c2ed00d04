#pragma once

#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/output.h"

namespace trainyard::cli {

// A run in the shape that the second generation of the command line has for it: `name` is the id.
Json job_json(const Json& run);

// The row of a list of jobs, and the same for programs (tsv).
std::vector<std::string> job_header();
std::vector<std::string> job_row(const Json& job, WallTime now);
std::vector<std::string> job_raw_row(const Json& job);
View job_view(Context& context);

// Whether the command speaks of jobs, and the run as it then is.
bool speaks_of_jobs(const Context& context);
Json shaped_run(const Context& context, const Json& run);

// Prints a run as the command speaks of it: a job's shape for `job …`, else the run.
Status print_run(Context& context, const Json& run);

}  // namespace trainyard::cli
