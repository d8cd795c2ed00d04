#pragma once

#include <array>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/guarded.h"
#include "base/home.h"
#include "logs/console.h"

namespace trainyard::logs {

inline constexpr int kRanksMax = 65536;

struct LogStoreOptions {
  size_t consoles_max = 32;  // Kept open; two descriptors each.
};

// What the runs of a home printed and logged, under runs/RUN/. Run ids are checked names, so none
// leads out of there. What was never written reads as empty. Appends to different consoles go on
// side by side; memory does not grow with what is kept. Thread-safe.
class LogStore {
 public:
  explicit LogStore(const Home& home, LogStoreOptions options = {});
  ~LogStore();

  // ---- consoles; see Console ----
  // What was appended is synced now and then by a thread of ours; durable() says how far that is.
  Result<uint64_t> append(const AttemptId& attempt, int rank, uint64_t from,
                          std::span<const Piece> pieces, Console::Gap gap = Console::Gap::refused);
  Result<uint64_t> durable(const AttemptId& attempt, int rank);
  Result<Read> read(const RunId& run, int rank, View view, uint64_t from, size_t max);
  Result<FramedRead> read_framed(const RunId& run, int rank, uint64_t from, size_t max);
  Result<uint64_t> size(const RunId& run, int rank, View view);
  Result<Range> attempt(const AttemptId& attempt, int rank);
  // Where the last `lines` lines begin; what follows the last newline counts as a line.
  Result<uint64_t> tail(const RunId& run, int rank, View view, int lines);
  // For a body as large as the console: `not_found` before the first byte.
  Result<Fd> open_console(const RunId& run, int rank);

  // ---- the files of logs/ and system_logs/, by their number in the database ----
  enum class Reset { no, yes };
  // As for consoles: takes what is new, nothing beyond a gap, returns the size. `yes` empties it
  // first: the script began the file anew.
  Result<uint64_t> append_file(const RunId& run, int64_t number, uint64_t from,
                               std::string_view bytes, Reset reset);
  Result<uint64_t> file_size(const RunId& run, int64_t number);  // 0 when it is not there.
  Result<Fd> open_file(const RunId& run, int64_t number);        // not_found

  // All that the run has here outlives the power. For the end of an attempt.
  Status seal(const RunId& run);
  // Removes all of a run that is over.
  Status remove(const RunId& run);
  // What is wrong with a run's files here, one sentence each.
  Result<std::vector<std::string>> check(const RunId& run);

 private:
  struct Slot {
    std::string key;
    // Shared: a thread that uses a console keeps it from being closed by another that makes room.
    std::shared_ptr<Console> console;
  };
  struct Cache {
    std::list<Slot> slots;  // The last used first.
    std::unordered_map<std::string, std::list<Slot>::iterator> by_key;
  };
  Result<std::shared_ptr<Console>> console(const RunId& run, int rank);
  fs::path file_path(const RunId& run, int64_t number) const;
  void sync_later(std::shared_ptr<Console> console);
  void sync_consoles(std::stop_token stop);

  const Home home_;
  const LogStoreOptions options_;
  Guarded<Cache> cache_;
  // Two sendings of one file must not cross; a lock per some runs is enough.
  std::array<std::mutex, 16> file_locks_;

  std::mutex sync_mutex_;
  std::condition_variable_any sync_asked_;
  std::vector<std::shared_ptr<Console>> unsynced_;  // Held by sync_mutex_.
  std::jthread syncer_;                             // Started when first needed. The last.
};

}  // namespace trainyard::logs
