#include "base/spread_folders.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

namespace trainyard {

void spread_folders_below(const fs::path& folder) {
  const auto fd = open_file(folder, O_RDONLY | O_DIRECTORY);
  int flags = 0;
  if (!fd || ioctl(fd->get(), FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_TOPDIR_FL;
  ioctl(fd->get(), FS_IOC_SETFLAGS, &flags);
}

}  // namespace trainyard
