#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "model/environment.h"

namespace trainyard {

// An environment under a name, as a workspace keeps it or as the table of curated ones has it.
struct EnvironmentRecord {
  Environment environment;  // With its name, and the version of a registered one.
  std::string workspace;    // Empty: a curated one.
  std::string description;
  std::string note;  // Of a curated one: what a user of the name is to know.
  bool archived = false;
  std::string created_by;
  WallTime created{};

  bool curated() const { return workspace.empty(); }
};

inline constexpr std::string_view kLatest = "latest";

// What is said of a name and its version: "n", "n:3", "n@latest", "azureml:n:3", or the long forms
// that end in /environments/n/versions/3 or /labels/latest.
struct EnvironmentName {
  std::string name;
  std::string version;  // Empty: the latest.
};
Result<EnvironmentName> parse_environment_name(std::string_view text);

// A name people may register: no other's beginning.
Status check_environment_name(std::string_view name);

// The same text for environments that do the same, whatever they are called.
std::string fingerprint(const Environment& environment);

// `above` put upon `base`: its packages, arguments and variables are added.
Environment layered(Environment base, const Environment& above);

// "system", "venv", "tensorflow", "mine:3".
std::string label(const Environment& environment);

}  // namespace trainyard
