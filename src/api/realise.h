#pragma once

#include "api/route.h"
#include "model/environment.h"

namespace trainyard::api {

// How far an environment is, by the request's `need`, `begin`, `log` and `wait`:
// {"state","progress","log","logNext","error","realised"}. Whoever asks has it made. `replaces` is
// the hash of the environment that a rebuild replaces in the workspace when it is complete.
Result<http::Response> show_stand(const Call& call, const Environment& environment,
                                  const std::string& workspace, const std::string& replaces = {});

// Parks the request while the server finds out which image the environment's is: it reads a file,
// which takes minutes for a large one, or asks a registry. No request may hold a thread that long.
// Nothing: go on.
std::optional<http::Response> wait_for_image(const Call& call, std::string_view workspace,
                                             const Environment& asked,
                                             const control::EnvironmentUse& use);

// A run was submitted: its environment is made while the run waits for its turn, or is held.
void make_ahead(House& house, const Run& run);

// A run was canceled: a build that no other run waits for is stopped.
void stop_making(House& house, const Run& run);

std::span<const RouteRow> realise_routes();

}  // namespace trainyard::api
