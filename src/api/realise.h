#pragma once

#include "api/route.h"
#include "model/environment.h"

namespace trainyard::api {

// How far an environment is, by the request's `need`, `begin`, `log` and `wait`:
// {"state","progress","log","logNext","error","realised"}. Whoever asks has it made.
Result<http::Response> show_stand(const Call& call, const Environment& environment,
                                  const std::string& workspace);

// A run was submitted: its environment is made while the run waits for its turn, or is held.
void make_ahead(House& house, const Run& run);

std::span<const RouteRow> realise_routes();

}  // namespace trainyard::api
