#pragma once

#include <mutex>

#include "base/file.h"

namespace trainyard::store {

// A file of nothing, kept for the day the disk is full: given up, it leaves room in which runs that
// are under way can still be brought to their end. Thread-safe.
class Reserve {
 public:
  static constexpr int64_t kSizeBytes = 16 * 1024 * 1024;  // Some 500 changes of 32 kB.

  // An empty path: none is kept and nothing is ever refused.
  explicit Reserve(fs::path file, int64_t size = kSizeBytes);

  // Frees it; false when there was none left to free.
  bool give_up();
  // `no_space` while it is given up; takes it back as soon as there is room again.
  Status check();

 private:
  bool take();

  const fs::path file_;
  const int64_t size_;
  std::mutex mutex_;
  bool held_ = false;
};

}  // namespace trainyard::store
