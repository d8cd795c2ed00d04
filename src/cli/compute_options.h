#pragma once

#include <string>

#include "base/file.h"
#include "cli/args.h"
#include "model/compute.h"
#include "wire/json.h"

namespace trainyard::cli {

// What of a compute is set by options, in the spellings of both generations of the command line.
extern const std::span<const Option> kComputeSettings;

// Whether one of them is given.
bool has_settings(const Args& args);

// Puts what is given into `spec`; the rest stays. `invalid` for what is no number, no time or no
// file.
Result<ComputeSpec> with_settings(const Args& args, ComputeSpec spec);

// The fields in which they differ, with the values of `after`.
wire::Json changes_between(const ComputeSpec& before, const ComputeSpec& after);

}  // namespace trainyard::cli
