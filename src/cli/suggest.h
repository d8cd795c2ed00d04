#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace trainyard::cli {

// What somebody means who types what we do not know: what other tools call it, else what is spelled
// alike. Empty: no idea.

// The command of `words`, as in "run rm": "run delete".
std::string command_meant_by(std::span<const std::string> words, std::span<const Command> commands);
// One of the options `known`, as in "--env": "--env-var".
std::string option_meant_by(std::string_view name, std::span<const std::string> known);

}  // namespace trainyard::cli
