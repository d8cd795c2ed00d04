#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "blob/blob_store.h"

namespace trainyard::blob {

// A pack: per blob 32 bytes of SHA-256, u64 LE size, bytes.
inline constexpr size_t kPackHeadSize = 40;

struct PackHead {
  Digest digest;
  uint64_t size = 0;
};
std::string pack_head(const PackHead& head);

// Takes a pack in pieces of any size and keeps its blobs; no blob is ever whole in memory. A blob
// whose bytes are not those of its name is left out and listed, also when the store has it already:
// who sends one has its bytes. Not thread-safe.
//
//   PackReader reader(store);
//   TRY(reader.write(piece));  // as often as pieces come
//   TRY_SET(const PackReader::Outcome outcome, reader.finish());
class PackReader {
 public:
  // `on_kept` (may be empty) hears of each blob that came with its bytes.
  using OnKept = std::function<void(const Digest&)>;
  explicit PackReader(Store& store, OnKept on_kept = {})
      : store_(store), on_kept_(std::move(on_kept)) {}

  // After an error (no_space, …) the same error again; what was kept before it stays.
  Status write(std::string_view bytes);

  struct Outcome {
    uint64_t kept = 0;        // Those that were here already count too.
    std::vector<Digest> bad;  // Send these again.
  };
  // The end of the pack: `invalid` when it stops inside a blob. Syncs the store, so that what is
  // answered as kept outlives the power.
  Result<Outcome> finish();

 private:
  Status take(std::string_view& bytes);
  Status begin_blob();
  Status end_blob();

  Store& store_;
  const OnKept on_kept_;
  Status status_;
  std::string head_bytes_;
  PackHead head_;
  uint64_t left_ = 0;  // Of the blob under way.
  bool in_blob_ = false;
  std::unique_ptr<Writer> writer_;  // None for a blob that is here already,
  Hasher skipped_;                  // whose bytes are only hashed.
  Outcome outcome_;
};

}  // namespace trainyard::blob
