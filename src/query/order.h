#pragma once

#include "query/functions.h"

namespace trainyard::query {

// The functions that put in order: numbers by size, strings by code points, both never mixed.
Result<Value> run_max(Arguments args, const CallContext& context);
Result<Value> run_max_by(Arguments args, const CallContext& context);
Result<Value> run_min(Arguments args, const CallContext& context);
Result<Value> run_min_by(Arguments args, const CallContext& context);
Result<Value> run_sort(Arguments args, const CallContext& context);
Result<Value> run_sort_by(Arguments args, const CallContext& context);

}  // namespace trainyard::query
