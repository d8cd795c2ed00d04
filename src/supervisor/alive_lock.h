#pragma once

#include "base/fd.h"
#include "base/file.h"

namespace trainyard::supervisor {

// Says to whoever looks that a supervisor is at work in this folder: a record lock, which the
// kernel takes back when we die, does not hand on to what we fork, and whose owner's pid it tells
// even where a full disk kept us from writing anything. In the file the mark of the attempt's
// processes, "MARK\n", behind it "done\n" when nobody need come after us. engine/local reads it.
class AliveLock {
 public:
  // `conflict` when another holds it.
  static Result<AliveLock> take(const fs::path& path);
  // On a full disk the lock alone must do.
  void describe(std::string_view mark);
  // The attempt is over and the server knows it.
  Status mark_done();

 private:
  explicit AliveLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
  std::string line_;
};

}  // namespace trainyard::supervisor
