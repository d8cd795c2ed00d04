#pragma once

#include "api/route.h"
#include "model/environment.h"

namespace trainyard::api {

// How far an environment is, by the request's `need`, `begin`, `log` and `wait`:
// {"state","progress","log","logNext","error","realised"}. Whoever asks has it made.
Result<http::Response> show_stand(const Call& call, const Environment& environment,
                                  const std::string& workspace);

// Parks the request while the server reads the file that the environment's image is: a large one
// takes minutes, and no request may hold a thread that long. Nothing: go on.
std::optional<http::Response> wait_for_image(const Call& call, std::string_view workspace,
                                             const Environment& asked,
                                             const control::EnvironmentUse& use);

// A run was submitted: its environment is made while the run waits for its turn, or is held.
void make_ahead(House& house, const Run& run);

// A run was canceled: a build that no other run waits for is stopped.
void stop_making(House& house, const Run& run);

std::span<const RouteRow> realise_routes();

}  // namespace trainyard::api
