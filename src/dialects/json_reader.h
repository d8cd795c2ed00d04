#pragma once

#include <string_view>

#include "dialects/document.h"

namespace trainyard::dialects {

// Strict JSON (RFC 8259) into a tree with places, which our JSON library does not tell. Throws a
// DocumentFault.
Node read_json(std::string_view text);

}  // namespace trainyard::dialects
