#pragma once

#include <cerrno>
#include <system_error>

#include "base/file.h"

namespace trainyard {

// The error of fs::copy or fs::copy_file to `to`: the standard library reports a disk that is full
// as an I/O error.
inline Error copy_error(std::error_code error, const fs::path& to, const std::string& what) {
  constexpr uintmax_t kPage = 4096;
  std::error_code none;
  const bool full = error == std::errc::io_error && fs::space(to, none).available < kPage && !none;
  return errno_error(full ? ENOSPC : error.value(), what);
}

}  // namespace trainyard
