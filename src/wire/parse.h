#pragma once

#include <functional>
#include <string_view>

#include "wire/json.h"

namespace trainyard::wire {

// Objects and lists inside each other. Code that prints, copies or compares a value recurses once a
// level, so this bounds its stack.
inline constexpr size_t kJsonDepthMax = 256;

// Bounds on one JSON text.
struct JsonLimits {
  size_t depth_max = kJsonDepthMax;
  size_t members_max = 1'000'000;  // Of one object.
  // Asked every few thousand values; true gives up with `cancelled`. Empty: never asked.
  std::function<bool()> stop = {};
};

// parse() of wire/json.h with limits of the caller's choice. Linear in the size of `text`. A key
// that is given twice keeps its first place and its last value.
Result<Json> parse(std::string_view text, const JsonLimits& limits);

}  // namespace trainyard::wire
