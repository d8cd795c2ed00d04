#pragma once

#include <string_view>

#include "dialects/document.h"

namespace trainyard::dialects {

// Applies "inputs.lr=0.1" to the document: maps on the way that are missing are made, a whole
// number is a place in a list, the value is read as YAML (so {a: 1} and [1, 2] work too) and
// nothing after the '=' is null. `invalid` when there is no '=', a part of the path is empty, or
// the way leads through a value that has no members.
Status apply_override(Document& document, std::string_view assignment);

}  // namespace trainyard::dialects
