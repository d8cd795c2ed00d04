#pragma once

#include "api/route.h"

namespace trainyard::api {

// The description of the API, made from the table of its routes.
Json openapi(std::span<const RouteRow> routes);

}  // namespace trainyard::api
