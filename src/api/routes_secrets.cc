#include "api/route.h"
#include "api/secrets.h"
#include "seal/box.h"
#include "store/secrets.h"
#include "store/workspaces.h"

namespace trainyard::api {
namespace {

constexpr size_t kValueMax = 64 * 1024;

// A sealed value opens only under its own workspace and name.
std::string bound_to(int64_t workspace, std::string_view name) {
  return std::to_string(workspace) + "/" + std::string(name);
}

Result<const seal::Box*> box_of(const Call& call) { return call.house.box(); }

Result<http::Response> list_secrets(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  std::vector<store::SecretHead> secrets;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const Workspace workspace, store::load_workspace(db, call.request.param("name")));
    TRY_SET(secrets, store::list_secrets(db, workspace.id));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, secrets.size(), [&](size_t i) -> Json {
    return {{"name", secrets[i].name},
            {"createdBy", secrets[i].created_by},
            {"createdAt", format_time(secrets[i].created)},
            {"changedAt", format_time(secrets[i].changed)}};
  });
}

Result<http::Response> set_secret(const Call& call) {
  const std::string name(call.request.param("secret"));
  TRY(check_name(name, "secret"));
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string value, wire::string_member(body, "value"));
  if (value.empty()) return fail(ErrorKind::invalid, "value: is empty");
  if (value.size() > kValueMax) return fail(ErrorKind::invalid, "value: is longer than 64 kB");
  if (value.find('\0') != std::string::npos) {
    return fail(ErrorKind::invalid, "value: holds a NUL byte; it becomes a variable of a process");
  }
  TRY_SET(const seal::Box* box, box_of(call));
  const WallTime now = call.house.clock.wall();
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const Workspace workspace,
            store::load_workspace(transaction.db(), call.request.param("name")));
    return store::set_secret(transaction, workspace.id, name,
                             box->seal(value, bound_to(workspace.id, name)), call.identity.user,
                             now);
  };
  TRY(call.house.store.write(Durable::yes, change));
  return answer({{"name", name}, {"changedAt", format_time(now)}});
}

Result<http::Response> delete_secret(const Call& call) {
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const Workspace workspace,
            store::load_workspace(transaction.db(), call.request.param("name")));
    return store::delete_secret(transaction, workspace.id, call.request.param("secret"));
  };
  TRY(call.house.store.write(Durable::yes, change));
  return no_content();
}

// What an attempt's run names, for its supervisor alone.
Result<http::Response> attempt_secrets(const Call& call) {
  TRY_SET(const Run run, call.house.store.run(call.identity.attempt->run));
  TRY_SET(const seal::Box* box, box_of(call));
  TRY_SET(const int64_t workspace, parse_int(run.workspace_id, "workspace"));
  Json values = Json::object();
  const auto look = [&](db::Db& db) -> Status {
    for (const std::string& name : run.spec.secrets) {
      TRY_SET(const std::string sealed, store::sealed_secret(db, workspace, name));
      TRY_SET(const seal::SecretText value, box->open(sealed, bound_to(workspace, name)));
      values[name] = std::string(value.view());
    }
    return {};
  };
  TRY(call.house.store.read(look));
  return answer({{"secrets", std::move(values)}});
}

using enum http::Method;
constexpr RouteRow kSecretsRoutes[] = {
    {get, "/api/v1/workspaces/{name}/secrets", Needs::reader, Attempts::refused, list_secrets,
     "Lists the names of a workspace's secrets, never their values.", "limit cursor"},
    {put, "/api/v1/workspaces/{name}/secrets/{secret}", Needs::submitter, Attempts::refused,
     set_secret, "Seals {\"value\"} under this name."},
    {del, "/api/v1/workspaces/{name}/secrets/{secret}", Needs::submitter, Attempts::refused,
     delete_secret, "Deletes a secret."},
    {get, "/api/v1/runs/{id}/attempts/{n}/secrets", Needs::attempt, Attempts::allowed,
     attempt_secrets, "The values of the secrets that the run's spec names."},
};

}  // namespace

std::span<const RouteRow> secret_routes() { return kSecretsRoutes; }

Result<std::string> secret_value(House& house, std::string_view workspace, std::string_view name) {
  TRY_SET(const seal::Box* box, house.box());
  std::string value;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const Workspace found, store::load_workspace(db, workspace));
    TRY_SET(const std::string sealed, store::sealed_secret(db, found.id, name));
    TRY_SET(const seal::SecretText text, box->open(sealed, bound_to(found.id, name)));
    value = text.view();
    return {};
  };
  TRY(house.store.read(look));
  return value;
}

}  // namespace trainyard::api
