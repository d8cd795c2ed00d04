#include "store/reserve.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "base/text.h"

namespace trainyard::store {

Reserve::Reserve(fs::path file, int64_t size) : file_(std::move(file)), size_(size) {
  held_ = take();
}

bool Reserve::give_up() {
  std::lock_guard lock(mutex_);
  if (file_.empty() || !held_) return false;
  held_ = false;
  std::error_code ignored;
  return fs::remove(file_, ignored);
}

Status Reserve::check() {
  std::lock_guard lock(mutex_);
  if (!held_) held_ = take();
  if (held_) return {};
  return fail(ErrorKind::no_space, "the disk of the home is full: " + file_.parent_path().string(),
              "Free some space; runs that are under way are still brought to their end, new ones "
              "are taken again once " +
                  format_size(static_cast<uint64_t>(2 * size_)) + " are free.");
}

bool Reserve::take() {
  if (file_.empty()) return true;
  std::error_code missing;
  if (fs::file_size(file_, missing) == static_cast<uintmax_t>(size_) && !missing) return true;
  // Twice its size must be free: on the last bytes it would take away what it is meant to save.
  struct statvfs space{};
  if (::statvfs(file_.parent_path().c_str(), &space) != 0) return false;
  if (space.f_bavail * space.f_frsize < static_cast<uint64_t>(2 * size_)) return false;
  const Result<Fd> made = open_file(file_, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (!made) return false;
  if (::posix_fallocate(made->get(), 0, size_) == 0) return true;
  std::error_code ignored;
  fs::remove(file_, ignored);
  return false;
}

}  // namespace trainyard::store
