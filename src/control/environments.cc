#include "control/environments.h"

#include "model/environment_identity.h"
#include "model/environment_record.h"
#include "store/environments.h"
#include "store/secrets.h"
#include "store/workspaces.h"

namespace trainyard::control {
namespace {

Result<Environment> look_up(store::Store& store, std::string_view workspace,
                            const Environment& asked) {
  // All of it may be in the name: "mine:3".
  TRY_SET(EnvironmentName name, parse_environment_name(asked.name));
  if (!asked.version.empty()) name.version = asked.version == kLatest ? "" : asked.version;
  Environment found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(EnvironmentRecord record, store::resolve_environment(db, workspace, name));
    found = std::move(record.environment);
    return {};
  };
  TRY(store.read(look));
  return layered(std::move(found), asked);
}

Status check_recipe(const Recipe& recipe) {
  if (recipe.kind == EnvironmentKind::container && recipe.image.empty() &&
      recipe.dockerfile.empty()) {
    return fail(ErrorKind::invalid, "the environment is a container and names no image");
  }
  if (!recipe.image.empty() && !recipe.dockerfile.empty()) {
    return fail(ErrorKind::invalid, "the environment names an image and a Dockerfile",
                "Keep one of them: a Dockerfile says FROM itself.");
  }
  return {};
}

Status check_secret(store::Store& store, std::string_view workspace, const std::string& secret) {
  if (secret.empty()) return {};
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const Workspace of, store::load_workspace(db, workspace));
    return store::check_secrets(db, of.id, {secret});
  };
  return store.read(look);
}

}  // namespace

Result<Environment> resolve(store::Store& store, std::string_view workspace,
                            const Environment& asked, const SettleRecipe& settle) {
  Environment environment = asked;
  if (!asked.name.empty() && asked.hash.empty()) {
    TRY_SET(environment, look_up(store, workspace, asked));
  }
  // A client that names packages and no kind means the kind that has them.
  environment.recipe.kind = layered(Environment{}, environment).recipe.kind;
  TRY(check_recipe(environment.recipe));
  TRY(check_secret(store, workspace, environment.registry.secret));
  environment.hash.clear();
  if (environment.recipe.kind == EnvironmentKind::system) return environment;
  environment.recipe.platform.clear();
  environment.recipe.image_digest.clear();
  if (settle) TRY(settle(environment.recipe));
  if (!asked.hash.empty()) environment.recipe.image_digest = asked.recipe.image_digest;
  environment.hash = environment_hash(environment);
  return environment;
}

}  // namespace trainyard::control
