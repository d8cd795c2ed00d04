#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/hash.h"

namespace trainyard::blob {

// A blob being written. Unless kept, nothing of it stays.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual Status write(std::string_view bytes) = 0;
  // Makes it the store's; `invalid` when the bytes are not those of `expected`. This Store has it
  // from now on, other processes see it after the next sync().
  virtual Status keep(const Digest& expected) = 0;
};

// has() stamps a blob again only after this: a list of 5,000 digests asked for every minute must
// not write 5,000 inodes each time.
inline constexpr seconds kStampAge{600};

// What a sweep removes: blobs that are not `used` and that nobody has written or asked for by has()
// since `before`.
struct Sweep {
  std::function<bool(const Digest&)> used;
  WallTime before{};
  bool dry_run = false;
  struct Count {
    uint64_t blobs = 0;    // Looked at.
    uint64_t removed = 0;  // On a dry run: would be removed.
    uint64_t removed_bytes = 0;
    uint64_t young = 0;  // Unused, and left because somebody touched them since `before`.
    uint64_t young_bytes = 0;
  };
  // Called every few blobs; false ends the sweep.
  std::function<bool(const Count&)> proceed;
};

// Bytes by their SHA-256. What is there is whole and never changes. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;
  // True also means: no sweep removes it whose `before` is more than kStampAge ago. Whoever tells a
  // client that a blob is here, or relies on it to be here later, asks by this.
  virtual bool has(const Digest& digest) = 0;
  virtual Result<Fd> open(const Digest& digest) = 0;  // not_found
  virtual Result<uint64_t> size(const Digest& digest) = 0;
  virtual Result<std::unique_ptr<Writer>> create() = 0;
  Status put(const Digest& digest, std::string_view bytes);
  // All that was kept before this call outlives the power, and has its name. Calls that meet share
  // one sync. On failure what was not made safe may be gone and must be kept again.
  virtual Status sync() = 0;

  // The time by which the file system stamps files: what Sweep::before is compared with.
  virtual Result<WallTime> file_time() = 0;
  // Removes blobs beside readers and writers. A killed sweep leaves a store that is whole: each
  // blob is there or not. Only one process may sweep or write a folder; any may read.
  virtual Result<Sweep::Count> sweep(const Sweep& sweep) = 0;
};

// A folder: blobs/ab/cdef…, written to `tmp` (same file system), and renamed once the bytes are
// safe: a name never stands for bytes that a power cut took. Folders are made when first needed.
// Whoever owns `tmp` empties it at start, before the first open_folder(): what is there belongs to
// nobody.
Result<std::unique_ptr<Store>> open_folder(const fs::path& root, const fs::path& tmp);

}  // namespace trainyard::blob
