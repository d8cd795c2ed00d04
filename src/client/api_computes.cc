// The calls about computes, sizes and machines.
#include "client/api.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

using http::encode_url;
using http::Method;

std::string computes_url(std::string_view workspace) {
  return std::string(wire::kApi) + "/workspaces/" + encode_url(workspace) + "/computes";
}
std::string compute_url(std::string_view workspace, std::string_view name) {
  return computes_url(workspace) + "/" + encode_url(name);
}
std::string sizes_url() { return std::string(wire::kApi) + "/sizes"; }

}  // namespace

Result<Json> Api::computes(std::string_view workspace) { return all(computes_url(workspace)); }

Result<Json> Api::compute(std::string_view workspace, std::string_view name) {
  return call(Method::get, compute_url(workspace, name));
}

Result<Json> Api::compute_nodes(std::string_view workspace, std::string_view name) {
  return all(compute_url(workspace, name) + "/nodes");
}

Result<Json> Api::create_compute(std::string_view workspace, const ComputeSpec& spec) {
  return call(Method::post, computes_url(workspace), wire::encode(spec));
}

Result<Json> Api::change_compute(std::string_view workspace, std::string_view name,
                                 const Json& changes) {
  return call(Method::patch, compute_url(workspace, name), changes);
}

Result<Json> Api::pause_compute(std::string_view workspace, std::string_view name, bool paused) {
  return call(Method::post, compute_url(workspace, name) + (paused ? "/pause" : "/resume"),
              Json::object());
}

Status Api::delete_compute(std::string_view workspace, std::string_view name) {
  TRY(call(Method::del, compute_url(workspace, name)));
  return {};
}

Result<Json> Api::sizes() { return all(sizes_url()); }

Result<Json> Api::set_size(std::string_view name, const Json& changes) {
  return call(Method::put, sizes_url() + "/" + encode_url(name), changes);
}

Status Api::delete_size(std::string_view name) {
  TRY(call(Method::del, sizes_url() + "/" + encode_url(name)));
  return {};
}

Result<Json> Api::machines(std::string_view workspace) {
  return all(std::string(wire::kApi) + "/machines?workspace=" + encode_url(workspace));
}

Result<Json> Api::create_node_token(std::string_view workspace, std::string_view name,
                                    std::string_view label, int64_t lifetime_s) {
  Json body = {{"workspace", workspace}, {"name", name}, {"label", label}};
  if (lifetime_s > 0) body["expiresInSeconds"] = lifetime_s;
  return call(Method::post, std::string(wire::kApi) + "/node-tokens", body);
}

Status Api::remove_machine(std::string_view key, bool force) {
  TRY(call(Method::del,
           std::string(wire::kApi) + "/machines/" + encode_url(key) + (force ? "?force=1" : "")));
  return {};
}

}  // namespace trainyard::client
