#include "env/build.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <set>

#include "base/text.h"
#include "env/build_conda.h"
#include "env/build_image.h"
#include "env/build_venv.h"

namespace trainyard::env {
namespace {

// Bytes and files below a folder; each is made read-only: it is for many runs. What is linked to
// the cache counts: the cache may be emptied. Name by name from open folders: by whole paths the
// ten thousands of files of a virtual environment take three times as long.
class Measure {
 public:
  explicit Measure(Realised& realised) : realised_(realised) {}

  Status add(int parent, const char* name, const fs::path& shown) {
    const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(fd < 0 ? nullptr : ::fdopendir(fd),
                                                     ::closedir);
    if (!folder) return fail_errno(errno, "list " + shown.string());
    while (const dirent* entry = ::readdir(folder.get())) {
      const std::string_view each = entry->d_name;
      if (each == "." || each == "..") continue;
      struct stat about{};
      if (::fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (S_ISDIR(about.st_mode)) {
        TRY(add(fd, entry->d_name, shown / each));
        continue;
      }
      const mode_t mode = about.st_mode & 0555;
      if (S_ISREG(about.st_mode) && (about.st_mode & 07777) != mode) {
        static_cast<void>(::fchmodat(fd, entry->d_name, mode, 0));
      }
      realised_.files += 1;
      if (about.st_nlink > 1 && !seen_.insert(about.st_ino).second) continue;
      realised_.bytes += static_cast<uint64_t>(about.st_size);
    }
    return {};
  }

 private:
  Realised& realised_;
  std::set<ino_t> seen_;
};

Result<Realised> build_kind(const Environment& environment, const fs::path& folder,
                            const Settings& settings, Watcher& watcher) {
  const bool by_engine = environment.recipe.kind == EnvironmentKind::container;
  if (settings.refusal && !by_engine) return std::unexpected(*settings.refusal);
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
  TRY(Measure(realised).add(AT_FDCWD, folder.c_str(), folder));
  if (realised.kind == EnvironmentKind::container) return realised;
  watcher.line("Made: " + std::to_string(realised.lock.size()) + " packages, " +
               std::to_string(realised.files) + " files, " + format_size(realised.bytes));
  return realised;
}

}  // namespace trainyard::env
