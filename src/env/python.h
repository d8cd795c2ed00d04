#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "env/build.h"

namespace trainyard::env {

// An interpreter of this machine: never one of a virtual environment, but what that stands on.
struct Python {
  fs::path file;
  std::string version;         // "3.11.2"
  std::string implementation;  // "cpython"
  std::string machine;         // "x86_64"

  std::string short_version() const;  // "3.11"
  std::string platform() const;       // "linux-x86_64-cpython-3.11"
};

// `asked` as in Recipe::python: a version ("3.11", "3.11.4", ">=3.8,<3.12"), a path, or nothing for
// the machine's own. Looked for in PATH and where pyenv and uv put theirs. `not_found` says what is
// here. What an interpreter says of itself is kept in Settings::cache until its file changes.
Result<Python> find_python(const std::string& asked, const Settings& settings);

// Python::platform() of every interpreter that find_python() would look at; each once, sorted. Asks
// them one after another, until `stopped`.
std::vector<std::string> python_platforms(const Settings& settings,
                                          const std::function<bool()>& stopped = {});

// Whether `version` is what was asked for: "3.11.2" is a "3.11", a "3", a "3.11.*", a
// ">=3.8,<3.12".
bool is_version(std::string_view version, std::string_view asked);

}  // namespace trainyard::env
