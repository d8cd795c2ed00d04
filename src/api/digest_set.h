#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/hash.h"

namespace trainyard::api {

// Digests as the first eight of their bytes, sorted: 8 MB a million. Two that share those bytes are
// taken for one, which keeps a blob too many and never removes one too many.
class DigestSet {
 public:
  void add(const Digest& digest) {
    keys_.push_back(key_of(digest));
    if (keys_.size() < compact_at_) return;
    compact();
    compact_at_ = std::max(kCompactMin, keys_.size() * 2);
  }
  void compact() {
    std::ranges::sort(keys_);
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  }
  // After compact().
  bool contains(const Digest& digest) const {
    return std::ranges::binary_search(keys_, key_of(digest));
  }

 private:
  static constexpr size_t kCompactMin = 1 << 20;
  static uint64_t key_of(const Digest& digest) {
    uint64_t key = 0;
    std::memcpy(&key, digest.bytes.data(), sizeof key);
    return key;
  }
  std::vector<uint64_t> keys_;
  size_t compact_at_ = kCompactMin;
};

}  // namespace trainyard::api
