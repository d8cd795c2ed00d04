#include "api/recipe_rights.h"

#include <algorithm>

#include "api/environments.h"
#include "model/environment_identity.h"
#include "model/environment_record.h"
#include "store/environments.h"

namespace trainyard::api {
namespace {

std::vector<std::string> places_of(const Recipe& recipe) {
  std::vector<std::string> places = local_paths(recipe);
  if (recipe.python.find('/') != std::string::npos) places.push_back(recipe.python);
  return places;
}

// What the registered environment of that name has itself.
std::vector<std::string> registered_places(const Call& call, std::string_view workspace,
                                           const Environment& asked) {
  std::vector<std::string> places;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(EnvironmentName name, parse_environment_name(asked.name));
    if (!asked.version.empty() && asked.version != kLatest) name.version = asked.version;
    TRY_SET(const EnvironmentRecord record, store::resolve_environment(db, workspace, name));
    places = places_of(record.environment.recipe);
    return {};
  };
  if (!asked.name.empty() && !call.house.store.read(look)) places.clear();
  return places;
}

}  // namespace

Status check_recipe_rights(const Call& call, std::string_view workspace, const Environment& asked) {
  const bool admin = call.identity.role == Role::admin && !call.identity.attempt;
  const std::vector<std::string> places = places_of(asked.recipe);
  if (admin || places.empty()) return {};
  std::vector<std::string> allowed = registered_places(call, workspace, asked);
  if (call.house.environments != nullptr) {
    const std::vector<std::string>& listed = call.house.environments->interpreters();
    allowed.insert(allowed.end(), listed.begin(), listed.end());
  }
  for (const std::string& place : places) {
    if (std::ranges::find(allowed, place) != allowed.end()) continue;
    const bool python = place == asked.recipe.python;
    return fail(
        ErrorKind::denied,
        "the environment names " + place + " of the server's machine, which only an admin may do",
        python ? "Name a version, as in 3.11. An admin can allow a path by server run "
                 "--interpreters, or register an environment with it."
               : "Use an index or a URL. An admin can register an environment with it, "
                 "which others then use by its name.");
  }
  return {};
}

}  // namespace trainyard::api
