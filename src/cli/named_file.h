#pragma once

#include "base/file.h"

namespace trainyard::cli {

// Files that the user names for output. A pipe or a device, /dev/stdout among them, is written into
// as it is; anything else is made whole or not at all, and through no link.
bool is_stream(const fs::path& path);
Result<Fd> open_stream(const fs::path& path);
Status write_named_file(const fs::path& path, std::string_view text);

}  // namespace trainyard::cli
