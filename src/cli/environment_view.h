#pragma once

#include "cli/output.h"

namespace trainyard::cli {

// A registered or curated environment, or a list of them.
View environment_view();

}  // namespace trainyard::cli
