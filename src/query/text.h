#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainyard::query {

// UTF-8 by characters (code points), as JMESPath counts them.
size_t count_characters(std::string_view text);
std::string_view first_character(std::string_view text);
std::string reverse_characters(std::string_view text);

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace trainyard::query
