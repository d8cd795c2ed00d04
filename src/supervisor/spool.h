#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"
#include "supervisor/switches.h"

namespace trainyard::supervisor {

// One rank's console on its way to the server: bytes by arrival in console-R.log, where they switch
// between the outputs in console-R.idx. What the server has on its disk for good is given back to
// ours, so that it holds only what may still have to be sent; console-R.rel says how far that went.
// One thread appends, one reads and releases.
class Spool {
 public:
  // Takes up what an earlier supervisor left; makes no file before the first byte.
  static Result<std::unique_ptr<Spool>> open(const fs::path& folder, int rank);

  // `stream` is 'o' or 'e'. On a full disk as much as fits is kept.
  Status append(char stream, std::string_view bytes);

  // Any thread. What is below is on disk with its switches.
  uint64_t size() const { return size_.load(std::memory_order_acquire); }

  // Frames (wire/urls.h) with the bytes from `from` on into `body`, replacing it; of at most
  // `size_max` bytes with their heads. Returns where the next begin.
  Result<uint64_t> read_frames(uint64_t from, size_t size_max, std::string& body);

  // The last bytes, at most `size` of them; those are kept whatever is released.
  static constexpr size_t kTailMax = 4096;
  Result<std::string> tail(size_t size = kTailMax) const;

  // Bytes below `offset` need not be sent again, whatever happens to the server.
  void release(uint64_t offset);
  // Below this they are not here any more.
  uint64_t readable_from() const { return readable_from_; }

 private:
  Spool(const fs::path& folder, int rank);
  Status create();
  void find_released();
  Status read_exactly(uint64_t from, char* buffer, size_t size) const;

  const fs::path path_;
  Fd log_;
  SwitchFile switches_;
  std::atomic<uint64_t> size_{0};
  // The reader's.
  uint64_t released_ = 0;
  uint64_t readable_from_ = 0;
};

}  // namespace trainyard::supervisor
