#include "api/policy.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "container/arguments.h"
#include "container/image_digest.h"
#include "env/dockerfile.h"
#include "store/people.h"
#include "store/policies.h"

namespace trainyard::api {
namespace {

// Whoever reaches one of these acts as root, or as the account of an engine.
constexpr std::string_view kGuarded[] = {
    "/proc",     "/run/docker.sock", "/var/run/docker.sock", "/run/containerd",    "/run/podman",
    "/run/crio", "/var/lib/docker",  "/var/lib/containerd",  "/var/lib/containers"};

std::unexpected<Error> server_file(const std::string& what, Role role) {
  return fail(ErrorKind::denied,
              what + ": the role " + std::string(to_string(role)) +
                  " may not name files of the server's machine",
              "Use a registry or a package index.");
}

Status check_image(const RolePolicy& policy, Role role, Environment& environment) {
  const std::string& image = environment.recipe.image;
  const container::ImageSource source = container::image_source(image);
  if (source.form == container::ImageSource::Form::named) {
    if (env::names_transport(image)) return server_file("image " + image, role);
    if (!env::may_be_anothers(image)) return {};
    return fail(ErrorKind::denied,
                "image " + image + ": the role " + std::string(to_string(role)) +
                    " may not name an image by its id, or by a name that Trainyard gave it",
                "It may have been fetched with another's password. Name it as a registry does: "
                "NAME:TAG.");
  }
  if (allows_everything(policy.image_folders)) return {};
  if (!allows_path(policy.image_folders, source.path.string(), PathUse::read)) {
    return fail(
        ErrorKind::denied,
        "image " + image + ": the role " + std::string(to_string(role)) +
            " may take images of the server's machine only from folders that an admin has "
            "allowed" +
            (policy.image_folders.empty() ? ", and there are none"
                                          : ": " + join(policy.image_folders, ", ")),
        "Name an image of a registry, or ask an admin: trainyard server policy set --role " +
            std::string(to_string(role)) + " --image-folder DIR");
  }
  environment.image_folders = policy.image_folders;
  return {};
}

// "file:///x", "git+file:///x", "/x", "./x", "~/x", "--find-links=/x".
bool names_file(std::string_view word) {
  if (lower(word).find("file:") != std::string::npos) return true;
  if (const size_t equals = word.find('='); word.starts_with("-") && equals != word.npos) {
    word.remove_prefix(equals + 1);
  }
  if (word.starts_with('/') || word.starts_with('.') || word.starts_with('~')) return true;
  // A name of a package has no slash; a URL has a scheme before its first one.
  const size_t slash = word.find('/');
  return slash != word.npos && word.find("://") == word.npos;
}

// Whether a line of pip's names a file of the machine that builds.
bool names_file_in(std::string_view line) {
  for (const std::string& word : split(line.substr(0, line.find(" #")), ' ')) {
    if (word.starts_with('#')) return false;  // A comment.
    const bool reads = word.starts_with("-r") || word.starts_with("-c") || word.starts_with("-e") ||
                       word.starts_with("--requirement") || word.starts_with("--constraint") ||
                       word.starts_with("--editable");
    if (!word.empty() && (reads || names_file(word))) return true;
  }
  return false;
}

Status check_recipe_files(const Environment& environment, Role role) {
  const Recipe& recipe = environment.recipe;
  for (const auto* lines : {&recipe.requirements, &recipe.options, &environment.lock}) {
    for (const std::string& line : *lines) {
      if (names_file_in(line)) return server_file(line, role);
    }
  }
  // "org/label/dev" is a channel, and "org/label/dev::numpy" a package.
  for (const auto* lines : {&recipe.channels, &recipe.conda}) {
    for (const std::string& line : *lines) {
      const bool file = lower(line).find("file:") != std::string::npos || line.starts_with('/') ||
                        line.starts_with('.') || line.starts_with('~');
      if (file) return server_file(line, role);
    }
  }
  return {};
}

Json shown(Role role, const RolePolicy& policy) {
  Json json = wire::encode(policy);
  json["role"] = to_string(role);
  return json;
}

Result<RolePolicy> policy_of(store::Store& store, Role role) {
  RolePolicy policy;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(policy, store::load_policy(db, role));
    return {};
  };
  TRY(store.read(look));
  return policy;
}

Result<http::Response> list_policies(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  constexpr Role kRoles[] = {Role::submitter, Role::admin};
  std::vector<Json> items;
  for (const Role role : kRoles) {
    TRY_SET(const RolePolicy policy, policy_of(call.house.store, role));
    items.push_back(shown(role, policy));
  }
  return answer_page(window, items.size(), [&](size_t i) { return items[i]; });
}

Result<http::Response> set_policy(const Call& call) {
  TRY_SET(const Role role, role_from(call.request.param("role")));
  TRY_SET(const Json body, body_object(call.request));
  RolePolicy changed;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const RolePolicy before, store::load_policy(transaction.db(), role));
    Json merged = wire::encode(before);
    for (const auto& [key, value] : body.items()) {
      if (!merged.contains(key)) {
        return fail(ErrorKind::invalid, "'" + key + "' is no part of a policy");
      }
      merged[key] = value;
    }
    TRY_SET(changed, wire::decode_role_policy(merged));
    TRY(check_policy(changed, guarded_paths(call.house.home)));
    return store::save_policy(transaction, role, changed);
  };
  TRY(call.house.store.write(Durable::yes, change));
  call.house.log.info("policy changed",
                      {{"role", std::string(to_string(role))}, {"by", call.identity.user}});
  return answer(shown(role, changed));
}

using enum http::Method;
constexpr RouteRow kPolicyRoutes[] = {
    {get, "/api/v1/policies", Needs::reader, Attempts::refused, list_policies,
     "Lists what each role may ask of machines: host paths, capabilities, devices, image folders.",
     "limit cursor"},
    {put, "/api/v1/policies/{role}", Needs::admin, Attempts::refused, set_policy,
     "Replaces the lists of a role's policy that the body names."},
};

}  // namespace

Status check_environment(const RolePolicy& policy, const control::EnvironmentUse& use,
                         Environment& environment) {
  if (use.role == Role::admin) return {};
  environment.limited = true;
  // An image's lock names images by their ids, and so those that another's password has fetched.
  // The server keeps a lock of each hash itself.
  if (environment.recipe.kind == EnvironmentKind::container) environment.lock.clear();
  TRY(check_image(policy, use.role, environment));
  TRY(check_recipe_files(environment, use.role));
  if (use.own_machine) return {};  // One's own machine is one's own to open.
  TRY(container::check_arguments(environment.arguments, policy, to_string(use.role),
                                 use.gpus ? container::RunGpus::some : container::RunGpus::none));
  if (!allows_everything(policy.host_paths)) environment.host_paths = policy.host_paths;
  return {};
}

Status check_interpreter(const std::vector<std::string>& listed, Role role, const Recipe& recipe) {
  const bool path = recipe.python.find('/') != std::string::npos;
  if (!path || role == Role::admin || std::ranges::find(listed, recipe.python) != listed.end()) {
    return {};
  }
  return fail(ErrorKind::denied,
              "interpreter " + recipe.python + ": the role " + std::string(to_string(role)) +
                  " may not name one by its path",
              "Name a version, as in 3.11. An admin allows a path by: trainyard server run "
              "--interpreters PATH");
}

Status check_environment(store::Store& store, const control::EnvironmentUse& use,
                         Environment& environment) {
  TRY_SET(const RolePolicy policy, policy_of(store, use.role));
  return check_environment(policy, use, environment);
}

Result<Role> role_of(const Call& call) {
  if (!call.identity.attempt) return call.identity.role;
  Role role = Role::submitter;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(role, store::role_of_user(db, call.identity.user, Role::submitter));
    return {};
  };
  TRY(call.house.store.read(look));
  return role;
}

std::vector<std::string> guarded_paths(const Home& home) {
  std::vector<std::string> paths(std::begin(kGuarded), std::end(kGuarded));
  paths.push_back(home.root());
  std::error_code error;
  if (const fs::path real = fs::canonical(home.root(), error); !error) paths.push_back(real);
  constexpr std::string_view kUnix = "unix://";
  for (const char* name : {"DOCKER_HOST", "CONTAINER_HOST"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::string_view(value).starts_with(kUnix)) {
      paths.emplace_back(value + kUnix.size());
    }
  }
  if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr) paths.emplace_back(own);
  return paths;
}

std::span<const RouteRow> policy_routes() { return kPolicyRoutes; }

}  // namespace trainyard::api
