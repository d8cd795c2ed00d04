#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace trainyard::env {

// Why uv, pip or conda failed, from what it printed: its own words, and the lines of the user's
// that these name ("requirements.txt:3: nosuch==1"). `invalid` is the user's to mend, `unavailable`
// the network's, `no_space` the disk's.
Error explain_failure(std::string_view program, int exit_code,
                      const std::vector<std::string>& printed,
                      const std::vector<std::string>& requirements);

}  // namespace trainyard::env
