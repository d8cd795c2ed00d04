#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.h"

namespace trainyard::cli {

// Every command, once.
std::span<const Command> all_commands();
// The options every command has.
std::span<const Option> common_options();

// The whole command line: finds the command, calls it, says what went wrong. Returns the exit code.
int run(std::span<const std::string> words);

}  // namespace trainyard::cli
