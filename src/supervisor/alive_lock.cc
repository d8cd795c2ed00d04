#include "supervisor/alive_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace trainyard::supervisor {

Result<AliveLock> AliveLock::take(const fs::path& path) {
  TRY_SET(Fd fd, open_file(path, O_RDWR | O_CREAT, 0600));
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd.get(), F_SETLK, &whole) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return fail(ErrorKind::conflict, "another supervisor is at work in " + path.string());
    }
    return fail_errno(errno, "lock " + path.string());
  }
  AliveLock lock(std::move(fd));
  return lock;
}

void AliveLock::describe(std::string_view mark) {
  line_ = std::string(mark) + "\n";
  if (ftruncate(fd_.get(), 0) != 0) return;
  static_cast<void>(write_all_at(fd_.get(), line_, 0, "write the lock").has_value());
}

Status AliveLock::mark_done() {
  return write_all_at(fd_.get(), line_ + "done\n", 0, "write the lock");
}

}  // namespace trainyard::supervisor
