#pragma once

#include <string_view>

#include "base/result.h"
#include "wire/json.h"

namespace trainyard::query {

// wire::parse(), to the same value or error, at several times its pace: a query over a long list
// spends nearly all its time in reading the list.
Result<wire::Json> read(std::string_view text);

}  // namespace trainyard::query
