#include "sdk/sdk.h"

#include <unistd.h>

#include <span>
#include <string>

#include "base/id.h"

namespace trainyard::sdk {

// The files of python/; made by the build.
std::string_view embedded(std::string_view name);
std::span<const std::string_view> embedded_names();

namespace {

constexpr std::string_view kPrefix = "python/";

}  // namespace

Result<fs::path> install(const fs::path& root) {
  fs::path folder = root / TRAINYARD_SDK_DIGEST;
  std::error_code error;
  if (fs::is_directory(folder, error)) return folder;
  // Whole or not at all: made beside it and renamed.
  const fs::path draft = root / new_secret("draft-").substr(0, 20);
  for (const std::string_view name : embedded_names()) {
    const fs::path file = draft / name.substr(kPrefix.size());
    TRY(make_dirs(file.parent_path()));
    TRY(write_file(file, embedded(name), 0644, Durable::no));
  }
  if (rename(draft.c_str(), folder.c_str()) != 0) {
    const int failure = errno;
    static_cast<void>(remove_tree(draft).has_value());
    if (!fs::is_directory(folder, error)) return fail_errno(failure, "make " + folder.string());
  }
  return folder;
}

}  // namespace trainyard::sdk
