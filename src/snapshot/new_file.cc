#include "snapshot/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/id.h"

namespace trainyard::snapshot {

NewFile::NewFile(int folder) : folder_(folder), name_(new_secret(".trainyard-partial-")) {}

NewFile::~NewFile() {
  if (made_) unlinkat(folder_, name_.c_str(), 0);
}

Result<Fd> NewFile::create(unsigned mode) {
  Fd fd(openat(folder_, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, "write");
  made_ = true;
  if (fchmod(fd.get(), mode) != 0) return fail_errno(errno, "write");
  return fd;
}

Status NewFile::create_symlink(const std::string& target) {
  if (symlinkat(target.c_str(), folder_, name_.c_str()) != 0) return fail_errno(errno, "write");
  made_ = true;
  return {};
}

Status NewFile::rename_to(const std::string& name) {
  if (renameat(folder_, name_.c_str(), folder_, name.c_str()) != 0) {
    return fail_errno(errno, "write");
  }
  made_ = false;
  return {};
}

}  // namespace trainyard::snapshot
