#include "client/machine.h"

#include "wire/machines.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

using wire::Json;

constexpr milliseconds kMachineTimeout{30'000};  // Without progress.

std::string machines_url(std::string_view rest = {}) {
  return std::string(wire::kApi).append("/machines").append(rest);
}
std::string machine_url(std::string_view key, std::string_view rest = {}) {
  return machines_url("/" + http::encode_url(key)).append(rest);
}

}  // namespace

Result<Json> MachineApi::join(std::string_view uid, std::string_view name,
                              const MachineFacts& facts) {
  return call(http::Method::post, machines_url(),
              {{"uid", uid}, {"name", name}, {"facts", wire::encode(facts)}});
}

Result<Json> MachineApi::own(std::string_view uid, const MachineFacts& facts) {
  return call(http::Method::post, machines_url("/own"),
              {{"uid", uid}, {"facts", wire::encode(facts)}});
}

Result<Json> MachineApi::show(std::string_view key) {
  return call(http::Method::get, machine_url(key), {});
}

Status MachineApi::leave(std::string_view key, bool force) {
  TRY(call(http::Method::del, machine_url(key, force ? "?force=1" : ""), {}));
  return {};
}

Result<std::optional<MachineOrders>> MachineApi::poll(std::string_view key,
                                                      const MachineReport& report, seconds wait) {
  TRY_SET(const Json json,
          call(http::Method::post, machine_url(key, "/poll?wait=" + std::to_string(wait.count())),
               wire::encode(report), wait));
  if (json.is_null()) return std::optional<MachineOrders>();
  TRY_SET(MachineOrders orders, wire::decode_machine_orders(json));
  return std::optional(std::move(orders));
}

Result<Json> MachineApi::call(http::Method method, std::string target, const Json& body,
                              seconds wait) {
  http::ClientRequest request{
      .method = method, .target = std::move(target), .timeout = kMachineTimeout + wait};
  if (!body.is_null()) {
    request.headers["content-type"] = "application/json";
    request.body = wire::dump(body);
  }
  TRY_SET(const http::Response response, client_.send(request));
  if (response.status < 200 || response.status > 299) {
    return std::unexpected(wire::error_from_answer(response.status, response.body));
  }
  if (response.body.empty()) return Json();
  return wire::parse(response.body);
}

}  // namespace trainyard::client
