#include "base/version.h"

#include "cli/commands/commands.h"
#include "cli/context.h"
#include "cli/exit.h"

namespace trainyard::cli {

// The commit this was built from; empty where the sources have none. From cmake/commit.cmake.
std::string_view commit();

namespace {

constexpr size_t kCommitShown = 12;  // Characters.

}  // namespace

std::string version_line() {
  std::string line = "trainyard " + std::string(kVersion);
  if (!commit().empty()) line += " (" + std::string(commit().substr(0, kCommitShown)) + ")";
  return line + "\n";
}

Result<int> version(Context& context) {
  const Json shown = {{"version", kVersion},
                      {"commit", commit().empty() ? Json() : Json(commit())}};
  TRY(context.print(shown, {.text = [](const Json&) { return version_line(); }}));
  return kExitOk;
}

}  // namespace trainyard::cli
