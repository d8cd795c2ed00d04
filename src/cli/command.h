#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "cli/args.h"

namespace trainyard::cli {

class Context;

// One row of the table of commands (cli.cc). Its manual is commands/NAME.md, with '_' for spaces
// and dashes.
struct Command {
  std::string_view name;     // "run list"
  std::string_view summary;  // "List runs, newest first"
  std::string_view usage;    // What follows the name: "[RUN] [-f]"
  std::span<const Option> options;
  std::span<const Option> shared;  // Those it has in common with its neighbours.
  int words_max = 0;
  Rest rest = Rest::words;
  Result<int> (*run)(Context&) = nullptr;  // The exit code, or why not.
  bool internal = false;                   // Started by Trainyard itself; not in the help.
};

}  // namespace trainyard::cli
