#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace trainyard::fuzz {

inline std::string_view text_of(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// Up to the first line break, and after it.
inline std::pair<std::string_view, std::string_view> first_line(std::string_view text) {
  const size_t end = text.find('\n');
  return {text.substr(0, end), end == text.npos ? "" : text.substr(end + 1)};
}

}  // namespace trainyard::fuzz
