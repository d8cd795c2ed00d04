#include "logs/log_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"

namespace trainyard::logs {
namespace {

// A sender gives its copy back in steps of 4 MB; less is synced when the run is over.
constexpr uint64_t kSyncStep = 4 << 20;
constexpr size_t kTailBlock = 64 * 1024;
constexpr uint64_t kTailScanMax = 64 << 20;  // A tail of longer lines than this begins here.

// Where in `text` the last `lines` lines begin, or how many newlines are still to be found before
// it.
struct TailSearch {
  int newlines_left = 0;
  std::optional<size_t> found;
};
TailSearch search_tail(std::string_view text, int newlines_left);
// The R of "console-R.log", or -1.
int rank_of(const std::string& file_name);
Status sync_file(const fs::path& path);

}  // namespace

LogStore::LogStore(const Home& home, LogStoreOptions options) : home_(home), options_(options) {}
LogStore::~LogStore() = default;

Result<std::shared_ptr<Console>> LogStore::console(const RunId& run, int rank) {
  TRY(check_name(run.value, "run id"));
  if (rank < 0 || rank >= kRanksMax) {
    return fail(ErrorKind::invalid, fmt::format("rank {} is out of range", rank));
  }
  std::string key = fmt::format("{}/{}", run.value, rank);
  return cache_.with([&](Cache& cache) {
    if (const auto found = cache.by_key.find(key); found != cache.by_key.end()) {
      cache.slots.splice(cache.slots.begin(), cache.slots, found->second);
      return cache.slots.front().console;
    }
    // Only consoles that nobody uses are closed: two open ones of the same files would each write
    // where it thinks the end is.
    for (auto at = cache.slots.end();
         cache.slots.size() >= options_.consoles_max && at != cache.slots.begin();) {
      --at;
      if (at->console.use_count() > 1) continue;
      cache.by_key.erase(at->key);
      at = cache.slots.erase(at);
    }
    cache.slots.push_front({key, std::make_shared<Console>(home_.run(run), rank)});
    cache.by_key.emplace(std::move(key), cache.slots.begin());
    return cache.slots.front().console;
  });
}

Result<uint64_t> LogStore::append(const AttemptId& attempt, int rank, uint64_t from,
                                  std::span<const Piece> pieces, Console::Gap gap) {
  if (attempt.number < 1) return fail(ErrorKind::invalid, "attempts are counted from 1");
  TRY_SET(auto kept, console(attempt.run, rank));
  TRY_SET(const uint64_t size, kept->append(attempt.number, from, pieces, gap));
  if (kept->unsynced() >= kSyncStep) sync_later(std::move(kept));
  return size;
}

Result<uint64_t> LogStore::durable(const AttemptId& attempt, int rank) {
  TRY_SET(const auto kept, console(attempt.run, rank));
  return kept->durable(attempt.number);
}

void LogStore::sync_later(std::shared_ptr<Console> console) {
  std::lock_guard lock(sync_mutex_);
  if (std::ranges::find(unsynced_, console) != unsynced_.end()) return;
  unsynced_.push_back(std::move(console));
  if (!syncer_.joinable()) {
    syncer_ = std::jthread([this](const std::stop_token& stop) { sync_consoles(stop); });
  }
  sync_asked_.notify_one();
}

void LogStore::sync_consoles(std::stop_token stop) {
  std::unique_lock lock(sync_mutex_);
  while (sync_asked_.wait(lock, stop, [&] { return !unsynced_.empty(); })) {
    const std::shared_ptr<Console> next = unsynced_.front();
    lock.unlock();
    // A disk that cannot leaves the sender with its copy: it is tried again with what comes next.
    static_cast<void>(next->sync().has_value());
    lock.lock();
    std::erase(unsynced_, next);
  }
}

Result<Read> LogStore::read(const RunId& run, int rank, View view, uint64_t from, size_t max) {
  TRY_SET(const auto kept, console(run, rank));
  return kept->read(view, from, max);
}

Result<FramedRead> LogStore::read_framed(const RunId& run, int rank, uint64_t from, size_t max) {
  TRY_SET(const auto kept, console(run, rank));
  return kept->read_framed(from, max);
}

Result<uint64_t> LogStore::size(const RunId& run, int rank, View view) {
  TRY_SET(const auto kept, console(run, rank));
  return kept->size(view);
}

Result<Range> LogStore::attempt(const AttemptId& attempt, int rank) {
  TRY_SET(const auto kept, console(attempt.run, rank));
  return kept->attempt(attempt.number);
}

Result<uint64_t> LogStore::tail(const RunId& run, int rank, View view, int lines) {
  TRY_SET(const auto kept, console(run, rank));
  TRY_SET(const uint64_t size, kept->size(view));
  if (size == 0 || lines <= 0) return size;
  // The newline at the very end closes the last line and begins none.
  TRY_SET(const Read last, kept->read(view, size - 1, 1));
  int newlines_left = last.bytes == "\n" ? lines + 1 : lines;
  uint64_t end = size;
  while (end > 0 && size - end < kTailScanMax) {
    const uint64_t begin = end > kTailBlock ? end - kTailBlock : 0;
    std::string block;
    while (block.size() < end - begin) {
      TRY_SET(const Read part, kept->read(view, begin + block.size(), end - begin - block.size()));
      if (part.bytes.empty()) {
        return fail(ErrorKind::unavailable, "the console has become shorter while it was read");
      }
      block += part.bytes;
    }
    const TailSearch search = search_tail(block, newlines_left);
    if (search.found) return begin + *search.found;
    newlines_left = search.newlines_left;
    end = begin;
  }
  return end;
}

Result<Fd> LogStore::open_console(const RunId& run, int rank) {
  TRY(check_name(run.value, "run id"));
  return trainyard::open_file(home_.run(run) / Console::file_name(rank, "log"), O_RDONLY);
}

fs::path LogStore::file_path(const RunId& run, int64_t number) const {
  return home_.run(run) / "files" / std::to_string(number);
}

Result<uint64_t> LogStore::append_file(const RunId& run, int64_t number, uint64_t from,
                                       std::string_view bytes, Reset reset) {
  TRY(check_name(run.value, "run id"));
  const fs::path path = file_path(run, number);
  std::lock_guard lock(file_locks_[std::hash<RunId>()(run) % file_locks_.size()]);
  Result<Fd> fd = trainyard::open_file(path, O_WRONLY | O_CREAT, 0600);
  if (!fd && fd.error().kind == ErrorKind::not_found) {
    TRY(make_dirs(path.parent_path(), 0700));
    fd = trainyard::open_file(path, O_WRONLY | O_CREAT, 0600);
  }
  if (!fd) return std::unexpected(std::move(fd).error());
  if (reset == Reset::yes && ::ftruncate(fd->get(), 0) != 0) {
    return fail_errno(errno, "empty a log file");
  }
  TRY_SET(const uint64_t size, trainyard::file_size(fd->get(), "a log file"));
  if (from > size || from + bytes.size() <= size) return size;
  const std::string_view fresh = bytes.substr(size - from);
  if (Status written = write_all_at(fd->get(), fresh, size, "a log file"); !written) {
    // All or nothing: what a full disk took half of is sent again.
    [[maybe_unused]] const int rc = ::ftruncate(fd->get(), static_cast<off_t>(size));
    return std::unexpected(std::move(written).error());
  }
  return size + fresh.size();
}

Result<uint64_t> LogStore::file_size(const RunId& run, int64_t number) {
  Result<Fd> fd = open_file(run, number);
  if (!fd && fd.error().kind == ErrorKind::not_found) return 0;
  if (!fd) return std::unexpected(std::move(fd).error());
  return trainyard::file_size(fd->get(), "a log file");
}

Result<Fd> LogStore::open_file(const RunId& run, int64_t number) {
  TRY(check_name(run.value, "run id"));
  return trainyard::open_file(file_path(run, number), O_RDONLY);
}

Status LogStore::seal(const RunId& run) {
  TRY(check_name(run.value, "run id"));
  std::error_code error;
  const fs::path folder = home_.run(run);
  for (const fs::path& place : {folder, folder / "files"}) {
    bool any = false;
    for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
      any = true;
      if (at->is_regular_file(error)) TRY(sync_file(at->path()));
    }
    if (any) TRY(sync_dir(place));
  }
  if (!fs::exists(folder, error)) return {};
  return sync_dir(home_.runs());
}

Status LogStore::remove(const RunId& run) {
  TRY(check_name(run.value, "run id"));
  const std::string start = run.value + "/";
  cache_.with([&](Cache& cache) {
    std::erase_if(cache.slots, [&](const Slot& slot) {
      return slot.key.starts_with(start) && cache.by_key.erase(slot.key) > 0;
    });
  });
  return remove_tree(home_.run(run));
}

Result<std::vector<std::string>> LogStore::check(const RunId& run) {
  TRY(check_name(run.value, "run id"));
  std::vector<std::string> findings;
  std::error_code error;
  const fs::path folder = home_.run(run);
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    const int rank = rank_of(name);
    if (rank < 0) continue;
    if (!fs::exists(folder / Console::file_name(rank, "log"), error)) {
      findings.push_back(Console::file_name(rank, "log") + ": is missing");
    } else if (name == Console::file_name(rank, "log")) {
      TRY_SET(const auto kept, console(run, rank));
      TRY_SET(const std::vector<std::string> wrong, kept->check());
      findings.insert(findings.end(), wrong.begin(), wrong.end());
    }
  }
  return findings;
}

namespace {

TailSearch search_tail(std::string_view text, int newlines_left) {
  for (size_t at = text.size(); at > 0; --at) {
    if (text[at - 1] != '\n') continue;
    if (--newlines_left == 0) return {0, at};
  }
  return {newlines_left, {}};
}

int rank_of(const std::string& file_name) {
  constexpr std::string_view kStart = "console-";
  const size_t dot = file_name.find('.');
  if (!file_name.starts_with(kStart) || dot == std::string::npos) return -1;
  const std::string number = file_name.substr(kStart.size(), dot - kStart.size());
  const Result<int64_t> rank = parse_int(number, "rank");
  if (!rank || *rank < 0 || *rank >= kRanksMax) return -1;
  return static_cast<int>(*rank);
}

Status sync_file(const fs::path& path) {
  TRY_SET(const Fd fd, open_file(path, O_RDONLY));
  if (::fdatasync(fd.get()) != 0) return fail_errno(errno, "sync " + path.string());
  return {};
}

}  // namespace
}  // namespace trainyard::logs
