#pragma once

#include <string>
#include <string_view>

#include "api/house.h"

namespace trainyard::api {

// The value of a secret, for what the server itself does with it. Kept no longer than needed.
Result<std::string> secret_value(House& house, std::string_view workspace, std::string_view name);

}  // namespace trainyard::api
