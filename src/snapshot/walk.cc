#include "snapshot/walk.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "snapshot/folder_cursor.h"
#include "snapshot/ignore.h"

namespace trainyard::snapshot {
namespace {

constexpr size_t kListBytes = 64 * 1024;  // What one getdents64(2) may bring.
constexpr size_t kTargetBytes = 4096;     // As readlink(2) has it.

using Levels = std::shared_ptr<const IgnoreLevel>;  // Shared by the folders below its file.

struct Job {
  std::string folder;
  Levels levels;
};

// The folders still to list, shared by the threads.
class Jobs {
 public:
  // None: all is done, or something failed.
  std::optional<Job> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty() || unfinished_ == 0 || error_; });
    if (error_ || waiting_.empty()) return std::nullopt;
    Job job = std::move(waiting_.back());
    waiting_.pop_back();
    return job;
  }
  void add(std::vector<Job>& jobs) {
    const std::lock_guard lock(mutex_);
    unfinished_ += jobs.size();
    std::move(jobs.begin(), jobs.end(), std::back_inserter(waiting_));
    if (!jobs.empty()) changed_.notify_all();
    jobs.clear();
  }
  // `files` were found by it.
  void finish(Status status, size_t files, const WalkOptions& options) {
    const std::lock_guard lock(mutex_);
    files_ += files;
    if (options.progress) options.progress(files_);
    if (!status && !error_) error_ = std::move(status).error();
    --unfinished_;
    if (unfinished_ == 0 || error_) changed_.notify_all();
  }
  std::optional<Error> error() { return error_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> waiting_;
  size_t unfinished_ = 0;
  uint64_t files_ = 0;
  std::optional<Error> error_;
};

// What all threads share and none changes.
struct Plan {
  int root;
  fs::path name;
  const WalkOptions& options;
  bool nested = false;  // .gitignore files below the top count too.
  std::string ignore_file;

  std::string full(std::string_view path) const { return (name / path).string(); }
};

// One thread's part of the walk.
class Walker {
 public:
  Walker(const Plan& plan, Jobs& jobs)
      : plan_(plan), jobs_(jobs), cursor_(plan.root, plan.name), list_(kListBytes, '\0') {}

  void run() {
    while (std::optional<Job> job = jobs_.take()) {
      const size_t before = result.found.size();
      Status visited = visit(*job);
      jobs_.add(below_);
      jobs_.finish(std::move(visited), result.found.size() - before, plan_.options);
    }
  }
  Walked result;

 private:
  Status visit(Job& job);
  Status list(int folder, const Job& job, bool& empty);
  Status look_at(int folder, const Job& job, const char* name, unsigned char type, bool& empty);
  Status take_symlink(int folder, const char* name);
  bool stays_out(const Job& job, std::string_view name) const;
  void note_ignored(bool folder);
  bool excluded(const struct stat& status) const;

  const Plan& plan_;
  Jobs& jobs_;
  FolderCursor cursor_;
  std::string list_;
  std::string path_;        // Of what is looked at.
  std::vector<Job> below_;  // Folders found by this visit.
};

// The text of an ignore file, or none where there is no such file. Git does not follow a symlink.
Result<std::optional<std::string>> read_ignore_file(int folder, const char* name, int flags) {
  const Fd fd(openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags));
  if (!fd && (errno == ENOENT || errno == ELOOP)) return std::nullopt;
  if (!fd) return fail_errno(errno, "open");
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return fail_errno(errno, "stat");
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  TRY_SET(std::string text, read_at(fd.get(), 0, static_cast<size_t>(status.st_size), "read"));
  return text;
}

Status Walker::visit(Job& job) {
  const auto opened = cursor_.at(job.folder);
  if (!opened) {
    // Gone since its parent was listed: as if it had never been there.
    if (opened.error().kind == ErrorKind::not_found) return {};
    Error error = opened.error();
    if (error.kind == ErrorKind::denied) error.hint = hint_unreadable(plan_.ignore_file);
    return std::unexpected(std::move(error));
  }
  if (plan_.nested && !job.folder.empty()) {
    const auto text = read_ignore_file(*opened, ".gitignore", O_NOFOLLOW);
    if (!text)
      return std::unexpected(Error(text.error()).within(plan_.full(job.folder + "/.gitignore")));
    if (*text) {
      job.levels = std::make_shared<IgnoreLevel>(
          IgnoreLevel{IgnoreFile(**text), job.folder.size() + 1, job.levels});
    }
  }
  bool empty = true;
  TRY(list(*opened, job, empty));
  if (empty && !job.folder.empty()) {
    result.found.push_back({.kind = EntryKind::folder, .path = job.folder});
  }
  return {};
}

Status Walker::list(int folder, const Job& job, bool& empty) {
  for (;;) {
    const ssize_t got = getdents64(folder, list_.data(), list_.size());
    if (got < 0 && errno == ENOENT) return {};  // Removed meanwhile.
    if (got < 0) return fail_errno(errno, "list " + plan_.full(job.folder));
    if (got == 0) return {};
    for (ssize_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(list_.data() + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      const bool out = stays_out(job, name);
      if (out && plan_.options.ignored_max == 0) continue;
      path_ = job.folder;
      if (!path_.empty()) path_.push_back('/');
      path_.append(name);
      if (out) {
        note_ignored(entry->d_type == DT_DIR);
        continue;
      }
      TRY(look_at(folder, job, entry->d_name, entry->d_type, empty));
    }
  }
}

Status Walker::look_at(int folder, const Job& job, const char* name, unsigned char type,
                       bool& empty) {
  struct stat status{};
  bool known = false;
  const auto ask = [&]() -> Result<bool> {
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0) return known = true;
    if (errno == ENOENT) return false;
    return fail_errno(errno, "stat " + plan_.full(path_));
  };
  if (type == DT_UNKNOWN) {  // Some file systems do not tell.
    TRY_SET(const bool there, ask());
    if (!there) return {};
    type = static_cast<unsigned char>(IFTODT(status.st_mode));
  }
  if (is_ignored(job.levels.get(), path_, type == DT_DIR)) {
    note_ignored(type == DT_DIR);
    return {};
  }
  if (!known && (type == DT_REG || !plan_.options.excluded.empty())) {
    TRY_SET(const bool there, ask());
    if (!there) return {};
    type = static_cast<unsigned char>(IFTODT(status.st_mode));
  }
  if (known && excluded(status)) return {};
  switch (type) {
    case DT_DIR:
      empty = false;
      below_.push_back({path_, job.levels});
      return {};
    case DT_REG:
      empty = false;
      result.found.push_back(
          {.kind = (status.st_mode & S_IXUSR) != 0 ? EntryKind::executable : EntryKind::file,
           .path = path_,
           .stamp = FileStamp::of(status)});
      return {};
    case DT_LNK:
      empty = false;
      return take_symlink(folder, name);
    default:
      const std::string_view what = type == DT_SOCK   ? "a socket"
                                    : type == DT_FIFO ? "a named pipe"
                                                      : "a device";
      result.warnings.push_back(path_ + ": " + std::string(what) + ", left out");
      return {};
  }
}

Status Walker::take_symlink(int folder, const char* name) {
  char target[kTargetBytes];
  const ssize_t size = readlinkat(folder, name, target, sizeof target);
  if (size < 0 && errno == ENOENT) return {};
  if (size < 0) return fail_errno(errno, "read symlink " + plan_.full(path_));
  result.found.push_back({.kind = EntryKind::symlink,
                          .path = path_,
                          .target = std::string(target, static_cast<size_t>(size))});
  return {};
}

bool Walker::stays_out(const Job& job, std::string_view name) const {
  if (!plan_.options.code) return false;
  if (name == ".git") return true;  // At any depth: a submodule has one too.
  // Whatever they are: the run gets folders of these names.
  return job.folder.empty() && (name == "outputs" || name == "logs");
}

void Walker::note_ignored(bool folder) {
  if (result.ignored.size() >= plan_.options.ignored_max) return;
  result.ignored.push_back(folder ? path_ + "/" : path_);
}

bool Walker::excluded(const struct stat& status) const {
  return std::ranges::any_of(plan_.options.excluded, [&](const auto& id) {
    return id.first == status.st_dev && id.second == status.st_ino;
  });
}

// .amlignore, else .gitignore and those below it.
Result<Levels> read_top_rules(Plan& plan) {
  auto text = read_ignore_file(plan.root, ".amlignore", 0);
  if (!text) return std::unexpected(std::move(text).error().within(plan.full(".amlignore")));
  if (!*text) {
    text = read_ignore_file(plan.root, ".gitignore", O_NOFOLLOW);
    if (!text) return std::unexpected(std::move(text).error().within(plan.full(".gitignore")));
    plan.nested = text->has_value();
  }
  plan.ignore_file = plan.nested ? ".gitignore" : ".amlignore";
  if (!*text) return Levels();
  return std::make_shared<const IgnoreLevel>(IgnoreLevel{IgnoreFile(**text), 0, nullptr});
}

}  // namespace

std::string hint_unreadable(const std::string& ignore_file) {
  if (ignore_file.empty()) return "Make it readable.";
  return "Make it readable, or leave it out by a line in " + ignore_file + ".";
}

Result<Walked> walk(int root, const fs::path& name, const WalkOptions& options) {
  Plan plan{.root = root, .name = name, .options = options};
  std::vector<Job> first(1);
  if (options.code) {
    TRY_SET(first[0].levels, read_top_rules(plan));
  }
  Jobs jobs;
  jobs.add(first);
  std::vector<std::unique_ptr<Walker>> walkers;
  for (int i = 0; i < std::max(options.threads, 1); ++i) {
    walkers.push_back(std::make_unique<Walker>(plan, jobs));
  }
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < walkers.size(); ++i) {
      others.emplace_back([walker = walkers[i].get()] { walker->run(); });
    }
    walkers[0]->run();
  }
  if (auto error = jobs.error(); error) return std::unexpected(*std::move(error));
  Walked all;
  all.ignore_file = plan.ignore_file;
  for (const auto& walker : walkers) {
    std::ranges::move(walker->result.found, std::back_inserter(all.found));
    std::ranges::move(walker->result.warnings, std::back_inserter(all.warnings));
    std::ranges::move(walker->result.ignored, std::back_inserter(all.ignored));
  }
  std::ranges::sort(all.found, {}, &Found::path);
  std::ranges::sort(all.warnings);
  std::ranges::sort(all.ignored);
  all.ignored.resize(std::min(all.ignored.size(), options.ignored_max));
  return all;
}

}  // namespace trainyard::snapshot
