#include "env/build.h"

#include <sys/stat.h>

#include <set>

#include "base/text.h"
#include "env/build_conda.h"
#include "env/build_image.h"
#include "env/build_venv.h"

namespace trainyard::env {
namespace {

// Bytes and files below a folder. What is linked to the cache counts: the cache may be emptied.
Status measure(const fs::path& folder, Realised& realised) {
  std::set<ino_t> seen;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    struct stat about{};
    if (::lstat(entry->path().c_str(), &about) != 0 || S_ISDIR(about.st_mode)) continue;
    realised.files += 1;
    if (about.st_nlink > 1 && !seen.insert(about.st_ino).second) continue;
    realised.bytes += static_cast<uint64_t>(about.st_size);
  }
  if (error) return fail_errno(error.value(), "list " + folder.string());
  return {};
}

Result<Realised> build_kind(const Environment& environment, const fs::path& folder,
                            const Settings& settings, Watcher& watcher) {
  switch (environment.recipe.kind) {
    case EnvironmentKind::venv:
      return build_venv(environment, folder, settings, watcher);
    case EnvironmentKind::conda:
      return build_conda(environment, folder, settings, watcher);
    case EnvironmentKind::container:
      return build_image(environment, folder, settings, watcher);
    case EnvironmentKind::system:
      break;
  }
  return fail(ErrorKind::invalid, "there is nothing to build of kind " +
                                      std::string(to_string(environment.recipe.kind)));
}

}  // namespace

Result<Realised> build(const Environment& environment, const fs::path& folder,
                       const Settings& settings, Watcher& watcher) {
  TRY_SET(Realised realised, build_kind(environment, folder, settings, watcher));
  realised.hash = environment.hash;
  realised.left_out = environment.left_out;
  TRY(measure(folder, realised));
  if (realised.kind == EnvironmentKind::container) return realised;
  watcher.line("Made: " + std::to_string(realised.lock.size()) + " packages, " +
               std::to_string(realised.files) + " files, " + format_size(realised.bytes));
  return realised;
}

}  // namespace trainyard::env
