#include "cli/named_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace trainyard::cli {

bool is_stream(const fs::path& path) {
  // Links there may lead to a regular file, and are not to be replaced by one.
  const std::string text = path.lexically_normal();
  if (text == "/dev/stdout" || text == "/dev/stderr" || text.starts_with("/dev/fd/") ||
      text.starts_with("/proc/")) {
    return true;
  }
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

Result<Fd> open_stream(const fs::path& path) {
  const std::string text = path.lexically_normal();
  const bool own = text == "/dev/stdout" || text == "/dev/stderr";
  if (!own) return open_file(path, O_WRONLY);
  // Not opened again: what is a file there would be written from its start.
  const int from = text == "/dev/stdout" ? STDOUT_FILENO : STDERR_FILENO;
  Fd fd(::fcntl(from, F_DUPFD_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "open " + text);
  return fd;
}

Status write_named_file(const fs::path& path, std::string_view text) {
  if (!is_stream(path)) return write_file(path, text);
  TRY_SET(const Fd stream, open_stream(path));
  return write_all(stream.get(), text, path.string());
}

}  // namespace trainyard::cli
