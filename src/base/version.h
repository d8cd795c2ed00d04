#pragma once

#include <string_view>

namespace trainyard {

// Of the binary: shown by --version, /version and `server status`.
inline constexpr std::string_view kVersion = TRAINYARD_VERSION;  // From the root CMakeLists.txt.

}  // namespace trainyard
