#pragma once

#include <string>
#include <string_view>

namespace trainyard::supervisor {

// What to do about a Python script that ended since a module is missing, from the last lines of its
// console; empty: it ended of something else.
std::string missing_module_advice(std::string_view last_lines);

}  // namespace trainyard::supervisor
