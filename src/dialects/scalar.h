#pragma once

#include <cstdint>
#include <optional>

#include "dialects/document.h"

namespace trainyard::dialects {

// What a plain scalar means in YAML 1.1, as PyYAML reads it; nothing for what is none. Quoted texts
// are texts only.
std::optional<bool> as_bool(const Node& node);  // true, false, yes, no, on, off.
// 12, -3, 1_000, 0x1F, 0b11, 017, 0o17, 1:30 (90).
std::optional<int64_t> as_int(const Node& node);
std::optional<double> as_number(const Node& node);  // 1e-3, .5, .inf, .nan and every as_int().

}  // namespace trainyard::dialects
