#pragma once

#include <string>

#include "base/file.h"

namespace trainyard::snapshot {

// A file or symlink that gets its name only when it is whole. Until then it has one that nobody can
// guess, beside it; that one goes with this object. What has the name already is replaced, never
// written through.
class NewFile {
 public:
  explicit NewFile(int folder);  // The folder stays the caller's.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // One of the two, once.
  Result<Fd> create(unsigned mode);
  Status create_symlink(const std::string& target);

  Status rename_to(const std::string& name);

 private:
  const int folder_;
  const std::string name_;
  bool made_ = false;
};

}  // namespace trainyard::snapshot
