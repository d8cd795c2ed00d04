#pragma once

#include <vector>

#include "api/route.h"
#include "model/environment.h"
#include "model/policy.h"

namespace trainyard::api {

// Refuses what the policy does not allow: control::CheckEnvironment. It opens nothing. For
// all but admins it also drops an image's lock, and sets Environment::limited.
Status check_environment(const RolePolicy& policy, const control::EnvironmentUse& use,
                         Environment& environment);

// The same with the policy that the store has for the role.
Status check_environment(store::Store& store, const control::EnvironmentUse& use,
                         Environment& environment);

// Refuses an interpreter by its path, which would be executed as the server, but for admins and
// those that the server was started with (ServeOptions::interpreters).
Status check_interpreter(const std::vector<std::string>& listed, Role role, const Recipe& recipe);

// Returns the role a request acts with. An attempt's token acts with its run's submitter's role.
Result<Role> role_of(const Call& call);

// Paths that no policy can open to submitters: by them one could act as the server.
std::vector<std::string> guarded_paths(const Home& home);

std::span<const RouteRow> policy_routes();

}  // namespace trainyard::api
