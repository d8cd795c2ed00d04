#include "supervisor/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <system_error>
#include <utility>

#include "seal/masking.h"

namespace trainyard::supervisor {
namespace {

constexpr size_t kFilesMax = 10'000;  // More are left out: a run that logs into folders of samples.
constexpr size_t kEntriesMax = 100'000;
constexpr int kDepthMax = 32;
constexpr size_t kPieceSize = 1 << 20;
constexpr uint64_t kGuardSize = 4096;
constexpr uint64_t kRewrittenMax = 16 << 20;  // Larger ones are not compared by their time alone.

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

// The length of the longest end of `text` that begins one of `forms` and is not the whole of it.
size_t begun_at_end(std::string_view text, const std::vector<std::string>& forms) {
  size_t longest = 0;
  for (const std::string_view form : forms) {
    for (size_t size = std::min(form.size() - 1, text.size()); size > longest; --size) {
      if (text.ends_with(form.substr(0, size))) longest = size;
    }
  }
  return longest;
}

}  // namespace

LogFiles::LogFiles(Options options) : options_(std::move(options)) {
  for (const std::string& text : options_.hidden) {
    hidden_longest_ = std::max(hidden_longest_, text.size());
  }
}

void LogFiles::scan(Last last) {
  last_ = last_ || last == Last::yes;
  if (system_log_wanted_) look_at(options_.system_name, options_.system_log);
  if (!options_.preparation.empty()) look_at(options_.preparation_name, options_.preparation);
  struct stat status{};
  // A link would lead out of the run's folder.
  if (lstat(options_.folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
  std::error_code error;
  fs::recursive_directory_iterator entry(options_.folder,
                                         fs::directory_options::skip_permission_denied, error);
  const fs::recursive_directory_iterator end;
  for (size_t count = 0; !error && entry != end && count < kEntriesMax; ++count) {
    if (entry.depth() >= kDepthMax) entry.disable_recursion_pending();
    look_at(options_.prefix + entry->path().lexically_relative(options_.folder).string(),
            entry->path());
    entry.increment(error);
  }
}

void LogFiles::look_at(const std::string& name, const fs::path& local) {
  struct stat status{};
  if (lstat(local.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  auto found = files_.find(name);
  if (found == files_.end()) {
    if (files_.size() >= kFilesMax) return;
    found = files_.emplace(name, Tracked{.local = local}).first;
  }
  Tracked& file = found->second;
  const int64_t changed = nanoseconds(status.st_mtim);
  const uint64_t seen = file.sent + (last_ ? 0 : file.held);
  const bool same = file.known && seen == static_cast<uint64_t>(status.st_size) &&
                    file.inode == status.st_ino && file.changed_ns == changed;
  if (same || file.refused || file.queued) return;
  file.queued = true;
  queue_.push_back(name);
}

void LogFiles::compare_all() {
  for (auto& [name, file] : files_) {
    if (!file.known || file.refused) continue;
    file.doubted = true;
    if (std::exchange(file.queued, true)) continue;
    queue_.push_back(name);
  }
}

// Where the server is, by a piece without bytes. One that has more than we sent has something else.
Status LogFiles::ask(client::AttemptApi& server, const std::string& name, Tracked& file, int fd,
                     std::string& buffer) {
  buffer.clear();
  TRY_SET(const uint64_t has, server.file(name, file.sent, buffer));
  file.doubted = false;
  if (has == file.sent) return {};
  file.known = has < file.sent;
  file.sent = std::min(has, file.sent);
  file.held = 0;
  file.guard = guard_of(fd, file.sent);
  return {};
}

Status LogFiles::send_next(client::AttemptApi& server, std::string& buffer) {
  const std::string name = queue_.front();
  Tracked& file = files_.at(name);
  // Not blocking: the name may be a pipe's by now.
  Result<Fd> fd = open_file(file.local, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (!fd || fstat(fd->get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    leave(name);  // Gone, or no longer ours to read: what was sent stays.
    return {};
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  const int64_t changed = nanoseconds(status.st_mtim);
  bool anew = begun_anew(fd->get(), file, size, status.st_ino);
  if (!anew && file.doubted) {
    TRY(ask(server, name, file, fd->get(), buffer));
    anew = !file.known;
    if (file.known && file.sent + file.held == size && file.changed_ns == changed) {
      leave(name);
      return {};
    }
  }
  file.doubted = false;
  anew = anew ||
         (size == file.sent + file.held && changed != file.changed_ns && size <= kRewrittenMax);
  const uint64_t from = anew ? 0 : file.sent;
  const uint64_t end = from + std::min<uint64_t>(kPieceSize, size - from);
  TRY_SET(const uint64_t held, read_covered(fd->get(), from, end, buffer));
  const uint64_t expected = from + buffer.size();
  const auto reset = anew ? client::AttemptApi::Reset::yes : client::AttemptApi::Reset::no;
  const Result<uint64_t> kept = server.file(name, from, buffer, reset);
  if (!kept && kept.error().kind == ErrorKind::invalid) {
    file.refused = true;
    leave(name);
    return {};
  }
  if (!kept) return std::unexpected(kept.error());
  file.known = true;
  file.inode = status.st_ino;
  file.changed_ns = changed;
  file.sent = std::min(*kept, expected);
  file.held = held;
  file.guard = guard_of(fd->get(), file.sent);
  if (*kept < expected && !anew && *kept <= from) {
    file.known = false;  // The server has less than it said: from the beginning.
    return fail(ErrorKind::unavailable, "the server took nothing of " + name);
  }
  leave(name);
  if (file.sent + file.held <
      size) {  // Behind the others: one that never stops growing must not hold them up.
    file.queued = true;
    queue_.push_back(name);
  }
  return {};
}

// A text may have begun in what was sent already: as much is read before `from`.
Result<uint64_t> LogFiles::read_covered(int fd, uint64_t from, uint64_t end,
                                        std::string& buffer) const {
  const uint64_t before = hidden_longest_ > 0 ? std::min<uint64_t>(from, hidden_longest_ - 1) : 0;
  TRY_SET(buffer, read_at(fd, from - before, end - from + before, "read a log file"));
  const uint64_t fresh = buffer.size() - std::min<uint64_t>(buffer.size(), before);
  const uint64_t held =
      last_ ? 0 : std::min<uint64_t>(fresh, begun_at_end(buffer, options_.hidden));
  seal::cover(buffer, options_.hidden);  // Its length stays: offsets are those of the file.
  buffer.resize(buffer.size() - held);
  buffer.erase(0, before);
  return held;
}

bool LogFiles::begun_anew(int fd, const Tracked& file, uint64_t size, uint64_t inode) {
  if (!file.known || size < file.sent || inode != file.inode) return true;
  return file.sent > 0 && guard_of(fd, file.sent) != file.guard;
}

uint64_t LogFiles::guard_of(int fd, uint64_t end) {
  const uint64_t begin = end > kGuardSize ? end - kGuardSize : 0;
  const Result<std::string> bytes = read_at(fd, begin, end - begin, "read a log file");
  return bytes ? std::hash<std::string>()(*bytes) : 0;
}

void LogFiles::leave(const std::string& name) {
  files_.at(name).queued = false;
  queue_.pop_front();
}

}  // namespace trainyard::supervisor
