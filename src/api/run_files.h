#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/house.h"
#include "base/text.h"
#include "model/run.h"

namespace trainyard::api {

// A name under which a rank's console, or a view of it, is read. By the contract the rank is in the
// name only when there are several.
struct ConsoleName {
  std::string path;
  std::string_view kind;  // console, view, alias
  int rank = 0;
  logs::View view = logs::View::both;
};
std::vector<ConsoleName> console_names(int rank, int ranks);
std::optional<ConsoleName> find_console_name(std::string_view path, int ranks);

// What Trainyard itself did, from the run's history.
inline constexpr std::string_view kLifecycle = "system_logs/lifecycle.txt";
std::string lifecycle_text(const Run& run);

// What making the run's environment printed, and its name of old.
inline constexpr std::string_view kBuildLog = "system_logs/environment.txt";
inline constexpr std::string_view kBuildLogAlias = "azureml-logs/20_image_build_log.txt";

// The exact versions of a virtual environment. They are the same for every run with its hash, also
// when it is made again, and kept once for all. Of other kinds a supervisor sends them.
inline constexpr std::string_view kVersionsFile = "system_logs/environment_lock.txt";
// Nothing where the run has begun no attempt, or its environment has none.
std::optional<std::string> versions_text(const House& house, const Run& run);

// What the run's stages wrote under the names that AzureML gave these logs, per node of the newest
// attempt: parts of its history, and which processes it had.
std::vector<std::string> classic_names(const Run& run);
std::optional<std::string> classic_text(const Run& run, std::string_view path);

struct ListedFile {
  std::string path;
  uint64_t size = 0;
  std::string_view kind;
};
// All files of a run by their names: consoles, logs, what was put out, the code.
Result<std::vector<ListedFile>> list_files(House& house, const Run& run);

// By the name's ending; what a browser could run is plain text.
std::string_view content_type(std::string_view path);

}  // namespace trainyard::api
