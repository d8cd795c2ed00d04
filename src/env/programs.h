#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "env/build.h"

namespace trainyard::env {

using Variables = std::map<std::string, std::string>;

// A variable's value; empty where it is not set.
std::string variable(const Variables& variables, const std::string& name);

// The file of a program by the PATH among `variables`; empty where there is none.
fs::path find_program(std::string_view name, const Variables& variables);

// A program that builds something, and what it is told.
struct Program {
  std::vector<std::string> command;  // An absolute path first.
  Variables variables;
  fs::path folder;                        // Where it starts.
  std::vector<std::string> wrapper = {};  // Words before the command: a sandbox (sandbox.h).
};

struct Ended {
  int exit_code = 0;  // 128 + N for one that signal N killed.
};

// Each line of its two outputs, as they come.
using OnLine = std::function<void(std::string_view line)>;
// Called four times a second while it runs.
using OnTick = std::function<void()>;

// Runs it in a session of its own until it ends. When the watcher wants no more, all its processes
// are killed at once and the answer is `cancelled`.
Result<Ended> run_program(const Program& program, const Watcher& watcher, const OnLine& on_line,
                          const OnTick& on_tick = {});

// What it prints on stdout when it ends with 0; killed at the end of `timeout`.
Result<std::string> output_of(const Program& program, milliseconds timeout);

// "uv pip install -r …", for a log: without the passwords of URLs.
std::string shown(const std::vector<std::string>& command);

}  // namespace trainyard::env
