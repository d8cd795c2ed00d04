#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "dialects/keys.h"
#include "model/compute.h"

namespace trainyard::dialects {

struct ComputeAsk {
  fs::path file;                  // Empty: no file, the overrides alone.
  std::vector<std::string> sets;  // --set, each "key=value".
};

struct ComputeFile {
  ComputeSpec spec;
  std::vector<std::string> warnings;  // "FILE:LINE: …", to be shown as they are.
};

// What a v2 compute file (docs/dialects/compute.md) says, put into `before`; what it does not name
// stays. `invalid` with FILE:LINE for all that is wrong with it by itself: the whole is for
// check_compute().
Result<ComputeFile> load_compute(const ComputeAsk& ask, ComputeSpec before);

// "dedicated" or "lowpriority" from whatever spelling of it: "low_priority", "LowPriority".
Result<std::string> vm_priority_from(std::string_view word);

const KeyTable& compute_keys();

}  // namespace trainyard::dialects
