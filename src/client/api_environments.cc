// The calls about environments by name.
#include "client/api.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

using http::encode_url;
using http::Method;

std::string environments_url(std::string_view workspace) {
  return std::string(wire::kApi) + "/workspaces/" + encode_url(workspace) + "/environments";
}

std::string curated_url() { return std::string(wire::kApi) + "/curated-environments"; }

}  // namespace

std::string environment_url(std::string_view workspace, const EnvironmentName& name) {
  return environments_url(workspace) + "/" + encode_url(name.name) +
         (name.version.empty() ? "" : "?version=" + encode_url(name.version));
}

Result<Json> Api::environments(std::string_view workspace, std::string_view name, bool archived) {
  return all(environments_url(workspace) + "?archived=" + (archived ? "1" : "0") +
             (name.empty() ? "" : "&name=" + encode_url(name)));
}

Result<Json> Api::environment(std::string_view workspace, const EnvironmentName& name) {
  return call(Method::get, environment_url(workspace, name));
}

Result<Json> Api::register_environment(std::string_view workspace, const Json& environment) {
  return call(Method::post, environments_url(workspace), environment);
}

Status Api::archive_environment(std::string_view workspace, const EnvironmentName& name,
                                bool archived) {
  TRY(call(Method::patch, environment_url(workspace, name), {{"archived", archived}}));
  return {};
}

Status Api::delete_environment(std::string_view workspace, const EnvironmentName& name, bool now) {
  std::string target = environment_url(workspace, name);
  if (now) target += (target.find('?') == std::string::npos ? "?" : "&") + std::string("now=1");
  TRY(call(Method::del, target));
  return {};
}

Result<Json> Api::environment_state(std::string_view workspace, const EnvironmentName& name,
                                    const StateQuery& query) {
  http::ClientRequest request{
      .target = environments_url(workspace) + "/" + encode_url(name.name) +
                "/state?version=" + encode_url(name.version) +
                "&begin=" + (query.begin ? "1" : "0") + "&log=" + std::to_string(query.log_from) +
                "&wait=" + std::to_string(query.wait_s) + "&rebuild=" + encode_url(query.rebuild)};
  request.timeout += std::chrono::seconds(query.wait_s);
  TRY_SET(const http::Response response, send(std::move(request)));
  if (response.status != 200) {
    return std::unexpected(wire::error_from_answer(response.status, response.body));
  }
  return wire::parse(response.body);
}

Result<Json> Api::curated_environments() { return all(curated_url()); }

Result<Json> Api::set_curated(std::string_view name, const Json& environment) {
  return call(Method::put, curated_url() + "/" + encode_url(name), environment);
}

Status Api::delete_curated(std::string_view name) {
  TRY(call(Method::del, curated_url() + "/" + encode_url(name)));
  return {};
}

Result<Json> Api::policies() { return all(std::string(wire::kApi) + "/policies"); }

Result<Json> Api::set_policy(std::string_view role, const Json& changes) {
  return call(Method::put, std::string(wire::kApi) + "/policies/" + encode_url(role), changes);
}

}  // namespace trainyard::client
