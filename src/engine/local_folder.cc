#include "engine/local_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "wire/json.h"

namespace trainyard::engine {

LockFile parse_lock(std::string_view text) {
  LockFile lock;
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() < 2) return lock;  // A line without its end is still being written.
  lock.mark = lines[0];
  lock.done = lines[1] == "done" && lines.size() > 2;
  return lock;
}

Result<LockFile> read_lock(const fs::path& folder) {
  const Result<Fd> fd = open_file(folder / "lock", O_RDWR);
  if (!fd && fd.error().kind == ErrorKind::not_found) return LockFile{};
  if (!fd) return std::unexpected(fd.error());
  struct flock wanted{};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  if (fcntl(fd->get(), F_GETLK, &wanted) != 0) return fail_errno(errno, "look at the lock");
  TRY_SET(const std::string text, read_at(fd->get(), 0, 4096, "read the lock"));
  LockFile lock = parse_lock(text);
  if (wanted.l_type != F_UNLCK) lock.owner = wanted.l_pid;
  return lock;
}

Status write_assignment(const fs::path& folder, const Assignment& assignment) {
  TRY(make_dirs(folder, 0700));
  return write_file(folder / "assignment.json", wire::dump(wire::encode(assignment)), 0600);
}

}  // namespace trainyard::engine
