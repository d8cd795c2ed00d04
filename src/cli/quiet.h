#pragma once

#include <string>

#include "base/result.h"

namespace trainyard::cli {

// Asks at the terminal for what nobody is to see; `cancelled` by Ctrl-C.
Result<std::string> ask_quietly(const std::string& prompt);

}  // namespace trainyard::cli
