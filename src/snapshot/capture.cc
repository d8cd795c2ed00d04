#include "snapshot/capture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "snapshot/folder_cursor.h"
#include "snapshot/parallel.h"
#include "snapshot/redact.h"
#include "snapshot/stat_cache.h"
#include "snapshot/walk.h"

namespace trainyard::snapshot {
namespace {

constexpr uint64_t kConfigMax = 1 << 20;  // A larger file is no run configuration.
constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kStretch = 16;  // Files a thread takes at a time; neighbours share their folder.
// A file that changes while it is read is read again after 1, 4, 16, … ms: 1.4 s in all.
constexpr int kReadsMax = 7;
constexpr milliseconds kPauseFirst{1};

// A file once more, now with what it holds.
struct Hashed {
  Found found;
  Digest digest;
  bool gone = false;  // Removed since it was listed.
  bool racy = false;  // Not to be remembered.
};

bool is_file(const Found& found) {
  return found.kind == EntryKind::file || found.kind == EntryKind::executable;
}

// Tells of progress, one call at a time.
class Progress {
 public:
  explicit Progress(const CaptureOptions& options) : options_(options) {}
  void add(uint64_t files, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    files_ += files;
    bytes_ += bytes;
    if (options_.progress) options_.progress(files_, bytes_);
  }
  uint64_t files() const { return files_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const CaptureOptions& options_;
  std::mutex mutex_;
  uint64_t files_ = 0;
  uint64_t bytes_ = 0;
};

// Reads files of one folder and its neighbours. One thread's.
class Reader {
 public:
  Reader(int root, const fs::path& name, const std::string& ignore_file, Progress& progress)
      : name_(name), ignore_file_(ignore_file), progress_(progress), cursor_(root, name) {}

  // Until it holds still.
  Result<Hashed> read(const Found& found);

 private:
  enum class Outcome { whole, gone, changed };
  Result<Outcome> read_once(Hashed& file);
  Result<uint64_t> hash(int fd, uint64_t size_max, const std::string& path);
  Error failed(int number, const std::string& path) const;

  const fs::path& name_;
  const std::string& ignore_file_;
  Progress& progress_;
  FolderCursor cursor_;
  Hasher hasher_;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kReadBytes);
};

Result<Hashed> Reader::read(const Found& found) {
  Hashed file{.found = found};
  milliseconds pause = kPauseFirst;
  for (int i = 0; i < kReadsMax; ++i) {
    if (i > 0) {
      MonotoneClock clock;
      clock.sleep_until(clock.steady() + pause, {});
      pause *= 4;
    }
    TRY_SET(const Outcome outcome, read_once(file));
    file.gone = outcome == Outcome::gone;
    if (outcome != Outcome::changed) return file;
  }
  std::string hint = "Try again when nothing writes to it";
  if (!ignore_file_.empty()) hint += ", or leave it out by a line in " + ignore_file_;
  return fail(ErrorKind::conflict, (name_ / found.path).string() + " changes while it is read",
              hint + ".");
}

Result<Reader::Outcome> Reader::read_once(Hashed& file) {
  const std::string& path = file.found.path;
  const int64_t read_at_ns = stamp_now_ns();
  const auto folder = cursor_.at(parent_of(path));
  if (!folder && folder.error().kind == ErrorKind::not_found) return Outcome::gone;
  if (!folder) return std::unexpected(folder.error());
  // Nonblocking: what was a file when it was listed may be a pipe by now.
  const Fd fd(openat(*folder, std::string(name_of(path)).c_str(),
                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return Outcome::gone;
  if (!fd && errno == ELOOP) return Outcome::changed;
  if (!fd) return std::unexpected(failed(errno, path));
  struct stat before{};
  struct stat after{};
  if (fstat(fd.get(), &before) != 0) return std::unexpected(failed(errno, path));
  if (!S_ISREG(before.st_mode)) return Outcome::changed;
  const auto size = static_cast<uint64_t>(before.st_size);
  TRY_SET(const uint64_t got, hash(fd.get(), size, path));
  file.digest = hasher_.finish();
  if (fstat(fd.get(), &after) != 0) return std::unexpected(failed(errno, path));
  file.found.stamp = FileStamp::of(after);
  if (got != size || file.found.stamp != FileStamp::of(before)) return Outcome::changed;
  file.found.kind = (after.st_mode & S_IXUSR) != 0 ? EntryKind::executable : EntryKind::file;
  file.racy = is_racy(file.found.stamp, read_at_ns);
  progress_.add(1, 0);
  return Outcome::whole;
}

// How much it read: more than `size_max` only says that the file has grown.
Result<uint64_t> Reader::hash(int fd, uint64_t size_max, const std::string& path) {
  uint64_t total = 0;
  while (total <= size_max) {
    const ssize_t got = ::read(fd, buffer_.get(), kReadBytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(failed(errno, path));
    if (got == 0) break;
    const auto size = static_cast<size_t>(got);
    hasher_.add({buffer_.get(), size});
    total += size;
    progress_.add(0, size);
  }
  return total;
}

Error Reader::failed(int number, const std::string& path) const {
  Error error = errno_error(number, "read " + (name_ / path).string());
  if (error.kind == ErrorKind::denied) error.hint = hint_unreadable(ignore_file_);
  return error;
}

std::vector<std::pair<uint64_t, uint64_t>> ids_of(const std::vector<fs::path>& paths) {
  std::vector<std::pair<uint64_t, uint64_t>> ids;
  struct stat status{};
  for (const fs::path& path : paths) {
    if (stat(path.c_str(), &status) == 0) ids.emplace_back(status.st_dev, status.st_ino);
  }
  return ids;
}

Entry to_entry(Found& found, const Digest& digest) {
  Entry entry{.kind = found.kind, .path = std::move(found.path), .target = std::move(found.target)};
  if (is_file(found)) {
    entry.size = found.stamp.size;
    entry.digest = digest;
  }
  return entry;
}

void remember(const StatCache& cache, const std::vector<Hashed>& files,
              std::vector<std::string>& warnings) {
  std::vector<StatCache::Record> records;
  records.reserve(files.size());
  for (const Hashed& file : files) {
    if (is_file(file.found) && !file.gone && !file.racy) {
      records.push_back({file.found.stamp, file.digest});
    }
  }
  if (Status saved = cache.save(std::move(records)); !saved) {
    warnings.push_back("the next snapshot will be slower: " + saved.error().message);
  }
}

// A password in a run configuration was sealed when the run was submitted; it is not kept beside.
Status take_out_passwords(int root, Captured& captured) {
  for (Entry& entry : captured.tree.entries) {
    const bool file = entry.kind == EntryKind::file || entry.kind == EntryKind::executable;
    if (!file || entry.size > kConfigMax || !may_hold_password(entry.path)) continue;
    const auto fd = open_beneath(root, entry.path);
    if (!fd) continue;  // Gone; whoever sends it says so.
    TRY_SET(const std::string text, read_at(fd->get(), 0, kConfigMax, entry.path));
    std::optional<std::string> kept = without_passwords(text);
    if (!kept) continue;
    entry.size = kept->size();
    entry.digest = sha256(*kept);
    captured.warnings.push_back(entry.path + ": its password is not kept with the run");
    captured.replaced[entry.path] = *std::move(kept);
  }
  return {};
}

}  // namespace

Result<Captured> capture(const fs::path& folder, const CaptureOptions& options) {
  TRY_SET(const Fd root, open_file(folder, O_RDONLY | O_DIRECTORY));
  std::error_code none;
  const StatCache cache = StatCache::load(options.cache, fs::canonical(folder, none));
  TRY_SET(Walked walked, walk(root.get(), folder,
                              {.code = options.code,
                               .excluded = ids_of(options.excluded),
                               .threads = options.threads,
                               .ignored_max = options.ignored_max,
                               .progress = options.listing}));
  std::vector<Hashed> files(walked.found.size());
  std::vector<size_t> unknown;
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].found = std::move(walked.found[i]);
    if (!is_file(files[i].found)) continue;
    if (const auto digest = cache.find(files[i].found.stamp); digest) {
      files[i].digest = *digest;
    } else {
      unknown.push_back(i);
    }
  }
  Progress progress(options);
  TRY(in_parallel(unknown.size(), options.threads, kStretch,
                  [&](size_t begin, size_t end) -> Status {
                    Reader reader(root.get(), folder, walked.ignore_file, progress);
                    for (size_t i = begin; i < end; ++i) {
                      TRY_SET(files[unknown[i]], reader.read(files[unknown[i]].found));
                    }
                    return {};
                  }));
  Captured captured;
  captured.warnings = std::move(walked.warnings);
  captured.ignored = std::move(walked.ignored);
  captured.ignore_file = walked.ignore_file;
  remember(cache, files, captured.warnings);
  captured.tree.entries.reserve(files.size());
  for (Hashed& file : files) {
    if (!file.gone) captured.tree.entries.push_back(to_entry(file.found, file.digest));
  }
  if (options.code) TRY(take_out_passwords(root.get(), captured));
  captured.text = encode(captured.tree);
  captured.id = sha256(captured.text);
  captured.files_hashed = progress.files();
  captured.bytes_hashed = progress.bytes();
  return captured;
}

}  // namespace trainyard::snapshot
