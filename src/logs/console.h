#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "logs/switch_index.h"

namespace trainyard::logs {

// A stretch of one output.
struct Piece {
  Stream stream = Stream::out;
  std::string_view bytes;
};

// What of a console is read: all by arrival, or one of its two outputs by itself.
enum class View { both, out, err };

struct Read {
  std::string bytes;
  uint64_t next = 0;  // Where to read on.
  uint64_t size = 0;  // All there was at that moment.
};

// Bytes by arrival, cut where the output switches.
struct FramedRead {
  struct Part {
    Stream stream = Stream::out;
    size_t size = 0;
  };
  std::string bytes;
  std::vector<Part> parts;  // Their sizes add up to `bytes`.
  uint64_t next = 0;
  uint64_t size = 0;
};

// A half-open stretch of the console.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// One rank's console on disk, attempts following each other in one byte space:
//
//   console-R.log    the bytes
//   console-R.idx    where the output switches (switch_index.h)
//   console-R.seams  where each attempt but the first begins, and where bytes are missing
//
// Records are written before the bytes they speak of. So whatever kill -9 leaves, records that
// speak of bytes that never came are dropped at the next opening, and every byte has its record.
// Nothing is synced before sync(): what was appended outlives our crash, not the power. durable()
// says how much does, and a sender keeps what lies beyond it.
// Thread-safe; readers do not hold the lock while they read.
class Console {
 public:
  // Touches nothing yet; a console without files is empty.
  Console(fs::path folder, int rank);

  // Takes what is new of `pieces`, which begin at `from` of the attempt's own bytes, and returns
  // how many bytes the attempt has now: what is there already is skipped, and nothing beyond a gap
  // is taken. `conflict` for an attempt older than the newest that wrote. All or nothing of a call
  // stays. With `Gap::lost` the sender says that it cannot send what lies before `from` any more: a
  // line of ours says so in its place, and the attempt's bytes go on from there.
  enum class Gap { refused, lost };
  Result<uint64_t> append(int attempt, uint64_t from, std::span<const Piece> pieces,
                          Gap gap = Gap::refused);

  // Up to `max` bytes. Fewer come where a view's bytes lie far apart; only `next` == `size` is the
  // end.
  Result<Read> read(View view, uint64_t from, size_t max);
  Result<FramedRead> read_framed(uint64_t from, size_t max);
  Result<uint64_t> size(View view);
  // Where the attempt's own bytes lie; empty at the end when it wrote nothing.
  Result<Range> attempt(int number);

  Status sync();
  // How many of the attempt's own bytes outlive the power.
  Result<uint64_t> durable(int attempt);
  // Bytes that do not.
  uint64_t unsynced();
  // What is wrong with the files, one sentence each.
  Result<std::vector<std::string>> check();

  static std::string file_name(int rank, std::string_view ending);

 private:
  enum class Make { no, yes };
  struct Seam {
    uint64_t attempt = 0;
    uint64_t start = 0;   // Of the seam line.
    uint64_t base = 0;    // Of the attempt's byte number `offset`, after it.
    uint64_t offset = 0;  // Not 0: those before it that are not here were lost by their sender.
  };
  // What a reader needs, copied under the lock; the descriptors stay open as long as we live.
  struct Moment {
    int log = -1;
    SwitchIndex index;
    uint64_t size = 0;
  };

  // These hold the lock.
  Status open(Make make);
  Status read_state();
  Status follow_cut();
  Status open_seams();
  Status drop_unwritten();
  uint64_t newest_attempt() const { return seams_.empty() ? 1 : seams_.back().attempt; }
  uint64_t have(uint64_t attempt) const;
  Result<std::string> seam_line(int attempt);
  Status begin_attempt(int attempt, std::vector<Piece>& pieces, std::string& line,
                       std::optional<Seam>& seam);
  Status skip_lost(int attempt, uint64_t from);
  Status write(std::span<const Piece> pieces, std::optional<Seam> seam);
  Status write_or_undo(std::span<const Piece> pieces, std::optional<Seam> seam);
  void undo();

  Result<Moment> moment();
  static Result<Read> read_all(const Moment& moment, uint64_t from, size_t max);
  static Result<Read> read_view(const Moment& moment, Stream stream, uint64_t from, size_t max);

  const fs::path folder_;
  const int rank_;

  std::mutex mutex_;
  // Below: held by mutex_.
  Fd log_;
  Fd index_fd_;
  SwitchIndex index_;
  uint64_t size_ = 0;
  uint64_t durable_ = 0;
  std::vector<Seam> seams_;
};

}  // namespace trainyard::logs
