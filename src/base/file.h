#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard {

namespace fs = std::filesystem;

// open(2) with O_CLOEXEC, EINTR handled, and the path in the error.
Result<Fd> open_file(const fs::path& path, int flags, unsigned mode = 0666);

// A plain file for reading. Never waits: a FIFO, a device or a socket is `invalid`.
Result<Fd> open_regular(const fs::path& path);
// A plain file, or with O_DIRECTORY a folder, by its path from an open folder. Neither ".." nor a
// link leads out of that folder, whoever changes what is in it meanwhile: that is `denied`.
Result<Fd> open_beneath(int folder, const fs::path& path, int flags = 0);

Result<std::string> read_file(const fs::path& path);
// Whole or not at all, by a temporary file beside it and a rename. `durable` outlives the power
// too.
enum class Durable { no, yes };
Status write_file(const fs::path& path, std::string_view bytes, unsigned mode = 0644,
                  Durable durable = Durable::no);

// All of it, or an error.
Status write_all(int fd, std::string_view bytes, std::string_view what);
Status write_all_at(int fd, std::string_view bytes, uint64_t offset, std::string_view what);
// Up to `size` bytes from `offset`; shorter only at the end of the file.
Result<std::string> read_at(int fd, uint64_t offset, size_t size, std::string_view what);
Result<uint64_t> file_size(int fd, std::string_view what);

inline bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Status make_dirs(const fs::path& path, unsigned mode = 0755);
// Removes a tree whatever modes its folders have; a path that is not there is fine. Symbolic links
// are removed, never followed.
Status remove_tree(const fs::path& path);
Status sync_dir(const fs::path& path);

// A folder of its own under $TMPDIR, removed at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A path made only of plain components: not absolute, no "", "." or "..", no NUL. What comes from a
// user or a peer and is joined to a folder of ours goes through this.
Status check_relative_path(std::string_view path);

}  // namespace trainyard
