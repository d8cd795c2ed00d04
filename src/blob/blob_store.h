#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

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

// Bytes by their SHA-256. What is there is whole and never changes. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;
  virtual bool has(const Digest& digest) = 0;
  virtual Result<Fd> open(const Digest& digest) = 0;  // not_found
  virtual Result<uint64_t> size(const Digest& digest) = 0;
  virtual Result<std::unique_ptr<Writer>> create() = 0;
  Status put(const Digest& digest, std::string_view bytes);
  // All that was kept before this call outlives the power, and has its name. Calls that meet share
  // one sync. On failure what was not made safe may be gone and must be kept again.
  virtual Status sync() = 0;
};

// A folder: blobs/ab/cdef…, written to `tmp` (same file system), and renamed once the bytes are
// safe: a name never stands for bytes that a power cut took. Folders are made when first needed.
// Whoever owns `tmp` empties it at start, before the first open_folder(): what is there belongs to
// nobody.
Result<std::unique_ptr<Store>> open_folder(const fs::path& root, const fs::path& tmp);

}  // namespace trainyard::blob
