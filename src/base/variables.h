#pragma once

#include <map>
#include <string>
#include <string_view>

namespace trainyard {

// Our environment's variables; without those whose names begin with `without`, where that is given.
std::map<std::string, std::string> own_variables(std::string_view without = {});

}  // namespace trainyard
