#include "blob/blob_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "base/check.h"
#include "base/guarded.h"
#include "base/spread_folders.h"

namespace trainyard::blob {
namespace {

// Smaller blobs are written by one write(2), and not at all when they are here already.
constexpr size_t kBufferMax = 256 * 1024;
constexpr size_t kStartBytes = 8 * 1024 * 1024;
// Up to here each file is synced by itself, so that nobody else's dirty pages are waited for; an
// fsync(2) costs 0.2 ms and more, while syncfs(2) of 5,000 small files took 60 ms.
constexpr size_t kSyncEachMax = 16;
constexpr uint64_t kProceedEvery = 32;  // Blobs between two calls of Sweep::proceed.

// Kept, but not yet known to outlive the power: under a name of its own in tmp/.
using Pending = std::map<Digest, fs::path>;

// Not the pid: two processes in two PID namespaces may share that and the folder.
std::string new_mark() {
  uint64_t random = 0;
  ENSURE(getrandom(&random, sizeof random, 0) == ssize_t{sizeof random});
  return fmt::format("{:016x}", random);
}

WallTime time_of(const timespec& time) {
  return WallTime(seconds(time.tv_sec) + microseconds(time.tv_nsec / 1000));
}

// Names in a folder; none where it is not there.
Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_errno(error.value(), "read " + folder.string());
  }
  return names;
}

class FolderStore : public Store {
 public:
  FolderStore(fs::path root, fs::path tmp)
      : root_(std::move(root)), tmp_(std::move(tmp)), own_(tmp_ / ("blobs-" + new_mark())) {}
  ~FolderStore() override {
    // Who forgot to sync was promised nothing; an orderly end keeps the blobs all the same.
    static_cast<void>(sync().has_value());
    rmdir(own_.c_str());
  }

  bool has(const Digest& digest) override;
  Result<Fd> open(const Digest& digest) override;
  Result<uint64_t> size(const Digest& digest) override;
  Result<std::unique_ptr<Writer>> create() override;
  Status sync() override;
  Result<WallTime> file_time() override;
  Result<Sweep::Count> sweep(const Sweep& sweep) override;

  fs::path path(const Digest& digest) const;
  // A new file in tmp/, and its path in `path`.
  Result<Fd> create_temporary(fs::path& path);
  // True: the file at `written` is the store's from now on. False: the blob was here already.
  bool adopt(const Digest& digest, const fs::path& written);

 private:
  Status make_safe(const Pending& batch);
  Status give_names(const Pending& batch);
  // True: to go on.
  Result<bool> sweep_folder(const std::string& name, const Sweep& sweep, Sweep::Count& count);
  Status sweep_blob(const Digest& digest, const Sweep& sweep, Sweep::Count& count);
  std::mutex& lock_of(const Digest& digest) { return locks_[digest.bytes[0]]; }

  const fs::path root_;
  const fs::path tmp_;
  const fs::path own_;  // In tmp/: this store's alone, made when first needed.
  std::atomic<uint64_t> counter_{0};
  Guarded<Pending> pending_;
  std::mutex sync_;  // One sync at a time: who comes meanwhile must not return before it is done.
  // By a digest's first byte: has() and the removal of a blob are one after the other.
  std::array<std::mutex, 256> locks_;
};

class FolderWriter : public Writer {
 public:
  explicit FolderWriter(FolderStore& store) : store_(store) {}
  ~FolderWriter() override { discard(); }

  Status write(std::string_view bytes) override;
  Status keep(const Digest& expected) override;

 private:
  Status flush();
  Status write_out(std::string_view bytes);
  void discard();

  FolderStore& store_;
  Hasher hasher_;
  std::string buffer_;
  Fd fd_;
  fs::path path_;         // Set while there is a file.
  size_t unstarted_ = 0;  // Written since the disk was told to begin.
};

Status FolderWriter::write(std::string_view bytes) {
  hasher_.add(bytes);
  if (buffer_.size() + bytes.size() > kBufferMax) {
    TRY(flush());
    if (bytes.size() >= kBufferMax) return write_out(bytes);
  }
  buffer_.append(bytes);
  return {};
}

Status FolderWriter::flush() {
  if (!fd_) {
    TRY_SET(fd_, store_.create_temporary(path_));
  }
  TRY(write_out(buffer_));
  buffer_.clear();
  return {};
}

Status FolderWriter::write_out(std::string_view bytes) {
  TRY(write_all(fd_.get(), bytes, "write a blob"));
  unstarted_ += bytes.size();
  if (unstarted_ >= kStartBytes) {
    // The disk may begin while more comes; the sync at the end has less to wait for.
    sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    unstarted_ = 0;
  }
  return {};
}

Status FolderWriter::keep(const Digest& expected) {
  const Digest found = hasher_.finish();
  if (found != expected) {
    discard();
    return fail(ErrorKind::invalid,
                "blob " + expected.hex() + ": its bytes are those of " + found.hex());
  }
  if (store_.has(expected)) {
    discard();
    return {};
  }
  if (Status written = flush(); !written) {
    discard();
    return written;
  }
  fd_.reset();
  if (store_.adopt(expected, path_)) path_.clear();
  discard();
  return {};
}

void FolderWriter::discard() {
  fd_.reset();
  buffer_.clear();
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

fs::path FolderStore::path(const Digest& digest) const {
  const std::string hex = digest.hex();
  return root_ / hex.substr(0, 2) / hex.substr(2);
}

Result<Fd> FolderStore::create_temporary(fs::path& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  fs::path name = own_ / std::to_string(++counter_);
  auto made = open_file(name, kFlags, 0600);
  if (!made && made.error().kind == ErrorKind::not_found) {
    TRY(make_dirs(tmp_, 0700));
    spread_folders_below(tmp_);
    TRY(make_dirs(own_, 0700));
    made = open_file(name, kFlags, 0600);
  }
  if (made) path = std::move(name);
  return made;
}

bool FolderStore::adopt(const Digest& digest, const fs::path& written) {
  return pending_.with(
      [&](Pending& pending) { return pending.try_emplace(digest, written).second; });
}

bool FolderStore::has(const Digest& digest) {
  if (pending_.with([&](Pending& pending) { return pending.contains(digest); })) return true;
  const fs::path file = path(digest);
  const std::lock_guard lock(lock_of(digest));
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) return false;
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  const auto age = time_of(now) - time_of(status.st_mtim);
  // A stamp from the future is set right too: it would keep the blob until then.
  if (age >= microseconds(0) && age < kStampAge) return true;
  return utimensat(AT_FDCWD, file.c_str(), nullptr, 0) == 0;
}

Result<Fd> FolderStore::open(const Digest& digest) {
  auto opened = open_file(path(digest), O_RDONLY | O_NOFOLLOW);
  if (opened || opened.error().kind != ErrorKind::not_found) return opened;
  const fs::path waiting = pending_.with([&](Pending& pending) {
    const auto found = pending.find(digest);
    return found == pending.end() ? fs::path() : found->second;
  });
  if (!waiting.empty()) {
    auto early = open_file(waiting, O_RDONLY | O_NOFOLLOW);
    if (early) return early;
  }
  // A sync may have given it its name between the two looks.
  opened = open_file(path(digest), O_RDONLY | O_NOFOLLOW);
  if (opened || opened.error().kind != ErrorKind::not_found) return opened;
  return fail(ErrorKind::not_found, "blob " + digest.hex() + " is not here");
}

Result<uint64_t> FolderStore::size(const Digest& digest) {
  TRY_SET(const Fd fd, open(digest));
  return file_size(fd.get(), "blob " + digest.hex());
}

Result<std::unique_ptr<Writer>> FolderStore::create() {
  return std::make_unique<FolderWriter>(*this);
}

Status FolderStore::sync() {
  const std::lock_guard lock(sync_);
  const Pending batch = pending_.with([](Pending& pending) { return pending; });
  if (batch.empty()) return {};
  Status status = make_safe(batch);
  if (status) status = give_names(batch);
  // After a failed fsync(2) pages pass for written that are not: such bytes cannot be trusted any
  // more. So what did not get its name goes, and whoever waits for it hears of the failure.
  pending_.with([&](Pending& pending) {
    for (const auto& [digest, path] : batch) {
      if (!status) unlink(path.c_str());
      pending.erase(digest);
    }
  });
  return status;
}

Status FolderStore::make_safe(const Pending& batch) {
  if (batch.size() > kSyncEachMax) {
    TRY_SET(const Fd folder, open_file(tmp_, O_RDONLY | O_DIRECTORY));
    if (syncfs(folder.get()) != 0) return fail_errno(errno, "sync " + tmp_.string());
    return {};
  }
  for (const auto& [digest, path] : batch) {
    TRY_SET(const Fd fd, open_file(path, O_RDONLY));
    if (fsync(fd.get()) != 0) return fail_errno(errno, "sync blob " + digest.hex());
  }
  return {};
}

Status FolderStore::give_names(const Pending& batch) {
  std::set<fs::path> touched;
  for (const auto& [digest, written] : batch) {
    const fs::path final_path = path(digest);
    const fs::path folder = final_path.parent_path();
    if (touched.insert(folder).second && access(folder.c_str(), F_OK) != 0) {
      TRY(make_dirs(folder, 0700));
      touched.insert(root_);
    }
    if (rename(written.c_str(), final_path.c_str()) != 0) {
      return fail_errno(errno, "keep blob " + digest.hex());
    }
  }
  if (touched.size() > kSyncEachMax) {
    TRY_SET(const Fd folder, open_file(root_, O_RDONLY | O_DIRECTORY));
    if (syncfs(folder.get()) != 0) return fail_errno(errno, "sync " + root_.string());
    return {};
  }
  for (const fs::path& folder : touched) TRY(sync_dir(folder));
  return {};
}

Result<WallTime> FolderStore::file_time() {
  fs::path name;
  TRY_SET(const Fd fd, create_temporary(name));
  struct stat status{};
  const int failed = fstat(fd.get(), &status) != 0 ? errno : 0;
  unlink(name.c_str());
  if (failed != 0) return fail_errno(failed, "stat " + name.string());
  return time_of(status.st_mtim);
}

Result<Sweep::Count> FolderStore::sweep(const Sweep& sweep) {
  Sweep::Count count;
  TRY_SET(const std::vector<std::string> folders, names_in(root_));
  for (const std::string& folder : folders) {
    TRY_SET(const bool proceed, sweep_folder(folder, sweep, count));
    if (!proceed) return fail(ErrorKind::cancelled, "the sweep was stopped");
  }
  return count;
}

Result<bool> FolderStore::sweep_folder(const std::string& name, const Sweep& sweep,
                                       Sweep::Count& count) {
  TRY_SET(const std::vector<std::string> files, names_in(root_ / name));
  for (const std::string& file : files) {
    const Result<Digest> digest = Digest::from_hex(name + file);
    if (!digest) continue;  // Nothing of ours.
    if (++count.blobs % kProceedEvery == 0 && !sweep.proceed(count)) return false;
    if (!sweep.used(*digest)) TRY(sweep_blob(*digest, sweep, count));
  }
  return sweep.proceed(count);
}

Status FolderStore::sweep_blob(const Digest& digest, const Sweep& sweep, Sweep::Count& count) {
  const fs::path file = path(digest);
  struct stat status{};
  const std::lock_guard lock(lock_of(digest));
  if (stat(file.c_str(), &status) != 0) return {};
  const auto size = static_cast<uint64_t>(status.st_size);
  if (time_of(status.st_mtim) >= sweep.before) {
    ++count.young;
    count.young_bytes += size;
    return {};
  }
  if (!sweep.dry_run && unlink(file.c_str()) != 0) {
    return fail_errno(errno, "remove blob " + digest.hex());
  }
  ++count.removed;
  count.removed_bytes += size;
  return {};
}

}  // namespace

Status Store::put(const Digest& digest, std::string_view bytes) {
  if (has(digest)) return {};
  TRY_SET(const std::unique_ptr<Writer> writer, create());
  TRY(writer->write(bytes));
  return writer->keep(digest);
}

Result<std::unique_ptr<Store>> open_folder(const fs::path& root, const fs::path& tmp) {
  struct stat status{};
  for (const fs::path& path : {root, tmp}) {
    if (stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) {
      return fail(ErrorKind::conflict, "open blobs " + path.string() + ": not a folder");
    }
  }
  return std::make_unique<FolderStore>(root, tmp);
}

}  // namespace trainyard::blob
