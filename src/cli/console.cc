#include "cli/console.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace trainyard::cli {
namespace {

constexpr size_t kLineMax = 1024 * 1024;  // A longer line is ended here: what is held costs memory.

}  // namespace

void LinePrefixer::put_line(std::string_view line, std::string& out) const {
  out.append(prefix_).append(held_).append(line).append("\n");
}

void LinePrefixer::add(std::string_view bytes, std::string& out) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;) {
    put_line(bytes.substr(0, end), out);
    held_.clear();
    bytes.remove_prefix(end + 1);
  }
  held_.append(bytes);
  if (held_.size() > kLineMax) finish(out);
}

void LinePrefixer::finish(std::string& out) {
  if (held_.empty()) return;
  put_line({}, out);
  held_.clear();
}

Status Console::write(char stream, uint32_t rank, std::string_view bytes) {
  if (prefix_ == Prefix::no) return put(stream, bytes);
  auto& lines = lines_.try_emplace({rank, stream}, "[" + std::to_string(rank) + "] ").first->second;
  std::string out;
  lines.add(bytes, out);
  return put(stream, out);
}

Status Console::finish() {
  for (auto& [from, lines] : lines_) {
    std::string out;
    lines.finish(out);
    TRY(put(from.second, out));
  }
  return {};
}

Status Console::put(char stream, std::string_view bytes) {
  if (stream == 'e') {
    static_cast<void>(write_output(STDERR_FILENO, bytes).has_value());
    return {};
  }
  Status written = write_output(STDOUT_FILENO, bytes);
  if (!written && written.error().kind == ErrorKind::cancelled) out_closed_ = true;
  return written;
}

Status write_output(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {  // Somebody who shares our terminal or pipe made it non-blocking.
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, -1);
      continue;
    }
    if (errno == EPIPE) return fail(ErrorKind::cancelled, std::string(kOutputClosed));
    return fail_errno(errno, fd == STDOUT_FILENO ? "write to stdout" : "write to stderr");
  }
  return {};
}

}  // namespace trainyard::cli
