#include "api/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/process.h"
#include "wire/json.h"

namespace trainyard::api {
namespace {

LockHolder parse_holder(std::string_view text) {
  LockHolder holder;
  const Result<wire::Json> json = wire::parse(text);
  if (!json || !json->is_object()) return holder;
  holder.host = wire::string_member(*json, "host").value_or("");
  holder.pid = wire::int_member(*json, "pid").value_or(0);
  holder.boot_id = wire::string_member(*json, "bootId").value_or("");
  holder.port = wire::int_member(*json, "port").value_or(0);
  holder.url = wire::string_member(*json, "url").value_or("");
  holder.started = wire::string_member(*json, "started").value_or("");
  return holder;
}

// Somebody may have removed the file between our opening and our locking it.
bool is_still_there(int fd, const fs::path& path) {
  struct stat held{};
  struct stat named{};
  if (::fstat(fd, &held) != 0 || ::stat(path.c_str(), &named) != 0) return false;
  return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

std::unexpected<Error> already_running(const Home& home, const LockHolder& holder) {
  const std::string where = holder.url.empty() ? "" : " at " + holder.url;
  const std::string who =
      holder.pid == 0 ? "is starting" : fmt::format("runs as process {}{}", holder.pid, where);
  return fail(ErrorKind::conflict, fmt::format("a server for {} {}", home.root().string(), who),
              "Stop it with: trainyard server stop");
}

std::unexpected<Error> other_host(const Home& home, const LockHolder& holder) {
  return fail(ErrorKind::conflict,
              fmt::format("{} is in use by a server on host {} (process {}, since {})",
                          home.root().string(), holder.host, holder.pid, holder.started),
              fmt::format("If that server is gone for good, remove {} and try again.",
                          home.lock().string()));
}

}  // namespace

LockHolder read_lock(const Home& home) { return parse_holder(read_file(home.lock()).value_or("")); }

Result<HomeLock> HomeLock::take(const Home& home) {
  for (;;) {
    TRY_SET(Fd fd, open_file(home.lock(), O_RDWR | O_CREAT, 0600));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return fail_errno(errno, "lock " + home.lock().string());
      return already_running(home, read_lock(home));
    }
    if (!is_still_there(fd.get(), home.lock())) continue;
    const LockHolder before = read_lock(home);
    // What a crash left is of no weight on the machine it crashed on: flock reaches all of it. The
    // boot id knows the machine even where a container's name changes with every start.
    const bool here = before.host == host_name() || before.boot_id == boot_id();
    if (!before.host.empty() && !here) return other_host(home, before);
    return HomeLock(std::move(fd));
  }
}

Status HomeLock::describe(int port, std::string_view url, WallTime started) {
  const wire::Json json = {{"host", host_name()}, {"pid", ::getpid()},
                           {"bootId", boot_id()}, {"port", port},
                           {"url", url},          {"started", format_time(started)}};
  const std::string text = wire::dump(json) + "\n";
  // In place: a renamed file would not be the one that is locked.
  if (::ftruncate(fd_.get(), 0) != 0) return fail_errno(errno, "write the lock");
  return write_all_at(fd_.get(), text, 0, "write the lock");
}

void HomeLock::clear() {
  if (fd_) [[maybe_unused]]
    const int rc = ::ftruncate(fd_.get(), 0);
}

}  // namespace trainyard::api
