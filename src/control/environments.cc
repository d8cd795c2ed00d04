#include "control/environments.h"

#include "base/hash.h"
#include "model/environment_identity.h"
#include "model/environment_record.h"
#include "model/requirement.h"
#include "store/environments.h"
#include "store/people.h"
#include "store/secrets.h"
#include "store/workspaces.h"

namespace trainyard::control {
namespace {

Status check_registrar(const EnvironmentRecord& record, Role role, const CheckEnvironment& check) {
  if (!check || record.curated()) return {};  // Curated ones are the admin's.
  Environment registered = record.environment;
  const Status allowed = check(registered, {.role = role, .own_machine = false, .gpus = true});
  if (allowed || allowed.error().kind != ErrorKind::denied) return allowed;
  return fail(ErrorKind::denied,
              "environment " + label(record.environment) + " was registered by " +
                  record.created_by +
                  ", who may not use what it asks for: " + allowed.error().message,
              "Look at it with: trainyard environment show " + record.environment.name +
                  ". Who may use it can register it anew.");
}

Result<Environment> look_up(store::Store& store, std::string_view workspace,
                            const Environment& asked, const CheckEnvironment& check) {
  // All of it may be in the name: "mine:3".
  TRY_SET(EnvironmentName name, parse_environment_name(asked.name));
  if (!asked.version.empty()) name.version = asked.version == kLatest ? "" : asked.version;
  EnvironmentRecord record;
  Role registrar = Role::submitter;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(record, store::resolve_environment(db, workspace, name));
    TRY_SET(registrar, store::role_of_user(db, record.created_by, Role::submitter));
    return {};
  };
  TRY(store.read(look));
  TRY(check_registrar(record, registrar, check));
  return layered(std::move(record.environment), asked);
}

// Whoever installs reads each text as one line: a second one could be "-e /path".
Status check_texts(const Environment& environment) {
  const Recipe& recipe = environment.recipe;
  TRY(check_one_line(recipe.python));
  for (const auto* lines : {&recipe.requirements, &recipe.options, &recipe.channels, &recipe.conda,
                            &environment.lock}) {
    for (const std::string& line : *lines) TRY(check_one_line(line));
  }
  return {};
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

// Whoever may name the secret may use what it fetches; a secret is of one workspace.
std::string credential_of(const Environment& environment, std::string_view workspace) {
  const ImageRegistry& registry = environment.registry;
  const bool image = environment.recipe.kind == EnvironmentKind::container;
  if (!image || (registry.secret.empty() && registry.username.empty())) return {};
  return sha256(std::string(workspace) + "\n" + registry.address + "\n" + registry.username + "\n" +
                registry.secret)
      .hex();
}

// Whether it is what the server resolved for a run of the workspace.
bool is_of_run(store::Store& store, std::string_view workspace, const Environment& asked,
               const std::string& run) {
  if (asked.hash.empty() || run.empty()) return false;
  const Result<Run> before = store.run(RunId{run});
  if (!before || before->spec.workspace != workspace) return false;
  const Environment& resolved = before->spec.environment;
  return resolved.hash == asked.hash && resolved.name == asked.name &&
         resolved.version == asked.version && resolved.recipe == asked.recipe;
}

}  // namespace

EnvironmentUse use_of(const RunSpec& spec, Role role) {
  const auto rerun = spec.properties.find(kRerunOf);
  return {.role = role,
          .own_machine = !spec.host.empty(),
          .gpus = spec.resources.gpus > 0,
          .rerun_of = rerun == spec.properties.end() ? "" : rerun->second};
}

Result<Environment> resolve(store::Store& store, std::string_view workspace,
                            const Environment& asked, const EnvironmentUse& use,
                            const EnvironmentRules& rules) {
  Environment environment = asked;
  const bool again = is_of_run(store, workspace, asked, use.rerun_of);
  if (!asked.name.empty() && !again) {
    TRY_SET(environment, look_up(store, workspace, asked, rules.check));
  }
  // A client that names packages and no kind means the kind that has them.
  environment.recipe.kind = layered(Environment{}, environment).recipe.kind;
  TRY(check_texts(environment));
  TRY(check_recipe(environment.recipe));
  TRY(check_secret(store, workspace, environment.registry.secret));
  environment.limited = false;
  environment.image_folders.clear();
  environment.host_paths.clear();
  environment.warnings.clear();
  if (rules.check) TRY(rules.check(environment, use));
  environment.hash.clear();
  if (environment.recipe.kind == EnvironmentKind::system) return environment;
  environment.recipe.platform.clear();
  environment.recipe.image_digest.clear();
  environment.recipe.rebuild.clear();
  environment.recipe.credential = credential_of(environment, workspace);
  if (rules.settle) TRY(rules.settle(workspace, environment, use));
  if (again) {
    environment.recipe.image_digest = asked.recipe.image_digest;
    environment.recipe.rebuild = asked.recipe.rebuild;
    environment.warnings.clear();
  } else if (rules.rebuild) {
    environment.recipe.rebuild = rules.rebuild(workspace, environment_hash(environment));
  }
  environment.hash = environment_hash(environment);
  return environment;
}

}  // namespace trainyard::control
