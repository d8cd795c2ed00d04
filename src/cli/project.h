#pragma once

#include <string>

#include "base/file.h"

namespace trainyard::cli {

// What a folder is attached to: .azureml/config.json or aml_config/config.json, in the folder or
// the nearest parent that has one. All empty: to nothing.
struct Project {
  fs::path file;
  std::string workspace;
  std::string experiment;
  std::string subscription_id;
  std::string resource_group;
};

// A file that is not JSON, or has a number for a name, is `invalid` with its place, FILE:LINE.
Result<Project> find_project(const fs::path& folder);

}  // namespace trainyard::cli
