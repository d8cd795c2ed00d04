#pragma once

#include <string>

#include "api/house.h"

namespace trainyard::api {

// What the server does, in Prometheus' text format.
Result<std::string> metrics_text(House& house);

}  // namespace trainyard::api
