// The calls about computes, sizes and machines.
#include "base/text.h"
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

Result<Json> Api::exec(std::string_view what, const Json& body) {
  TRY_SET(const Json made,
          call(Method::post, std::string(wire::kApi) + "/" + std::string(what) + "/exec", body));
  return made.value("items", Json::array());
}

Result<Api::ExecPart> Api::exec_output(std::string_view exec, uint64_t from, int wait_s) {
  http::ClientRequest request{.target = std::string(wire::kApi) + "/execs/" + encode_url(exec) +
                                        "?from=" + std::to_string(from) +
                                        "&wait=" + std::to_string(wait_s)};
  request.timeout += std::chrono::seconds(wait_s);
  TRY_SET(http::Response response, send(std::move(request)));
  if (response.status != 200) {
    return std::unexpected(wire::error_from_answer(response.status, response.body));
  }
  const auto header = [&](const char* name) -> Result<int64_t> {
    const auto found = response.headers.find(name);
    return parse_int(found != response.headers.end() ? found->second : "", name);
  };
  ExecPart part{.bytes = std::move(response.body), .next = from};
  part.next = static_cast<uint64_t>(header("x-next").value_or(static_cast<int64_t>(from)));
  part.taken = header("x-taken").value_or(0) == 1;
  if (const auto code = header("x-exit-code")) part.exit_code = static_cast<int>(*code);
  if (const auto error = response.headers.find("x-error"); error != response.headers.end()) {
    TRY_SET(const std::string text, http::decode_url(error->second));
    part.error = wire::error_from_answer(503, text);
  }
  return part;
}

Status Api::stop_exec(std::string_view exec) {
  TRY(call(Method::del, std::string(wire::kApi) + "/execs/" + encode_url(exec)));
  return {};
}

Result<Json> Api::update_workspace(std::string_view workspace, const Json& changes) {
  return call(Method::patch, std::string(wire::kApi) + "/workspaces/" + encode_url(workspace),
              changes);
}

}  // namespace trainyard::client
