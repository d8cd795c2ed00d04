#include "client/attempt.h"

#include "base/text.h"
#include "wire/json.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

constexpr milliseconds kTimeout{30'000};  // Without progress.

}  // namespace

Result<Orders> AttemptApi::report(std::span<const Report> reports, std::string_view instance,
                                  std::string_view epoch) {
  wire::Json json;
  json["instance"] = std::string(instance);
  json["epoch"] = std::string(epoch);
  json["reports"] = wire::Json::array();
  for (const Report& report : reports) json["reports"].push_back(wire::encode(report));
  std::string body = wire::dump(json);
  const std::string url = wire::attempt_url(id_, "/reports?node=" + std::to_string(node_));
  TRY_SET(const std::string answer,
          send(http::Method::post, url, body, "application/json", kTimeout));
  TRY_SET(json, wire::parse(answer));
  return wire::decode_orders(json);
}

Result<Orders> AttemptApi::orders(const Orders& known, seconds wait) {
  const auto flag = [](bool set) { return std::string(set ? "1" : "0"); };
  const std::string query =
      "/orders?node=" + std::to_string(node_) + "&cancel=" + flag(known.cancel) +
      "&go=" + flag(known.go) + "&stop=" + flag(!known.stop.empty()) + "&done=" + flag(known.done) +
      "&execs=" + join(known.execs, ",") + "&wait=" + std::to_string(wait.count());
  std::string none;
  TRY_SET(const std::string answer,
          send(http::Method::get, wire::attempt_url(id_, query), none, {}, kTimeout + wait));
  TRY_SET(const wire::Json json, wire::parse(answer));
  return wire::decode_orders(json);
}

Result<AttemptApi::Kept> AttemptApi::console(int rank, uint64_t from, std::string& frames,
                                             Before before) {
  return send_bytes(
      wire::attempt_url(id_, "/console/" + std::to_string(rank) + "?from=" + std::to_string(from) +
                                 (before == Before::lost ? "&lost=1" : "")),
      frames);
}

Result<uint64_t> AttemptApi::file(std::string_view path, uint64_t from, std::string& bytes,
                                  Reset reset) {
  TRY_SET(const Kept kept,
          send_bytes(wire::attempt_url(id_, "/files?path=" + http::encode_url(path) +
                                                "&from=" + std::to_string(from) +
                                                (reset == Reset::yes ? "&reset=1" : "")),
                     bytes));
  return kept.size;
}

Result<uint64_t> AttemptApi::records(int rank, uint64_t from, std::string& lines) {
  TRY_SET(const Kept kept, send_bytes(wire::attempt_url(id_, "/records/" + std::to_string(rank) +
                                                                 "?from=" + std::to_string(from)),
                                      lines));
  return kept.size;
}

Result<std::map<std::string, std::string>> AttemptApi::secrets() {
  std::string none;
  TRY_SET(const std::string answer,
          send(http::Method::get, wire::attempt_url(id_, "/secrets"), none, {}, kTimeout));
  TRY_SET(const wire::Json json, wire::parse(answer));
  std::map<std::string, std::string> values;
  const auto found = json.find("secrets");
  if (found == json.end() || !found->is_object()) return values;
  for (const auto& [name, value] : found->items()) {
    TRY_SET(values[name], wire::string_member(*found, name));
  }
  return values;
}

Result<AttemptApi::EnvironmentStand> AttemptApi::environment(const EnvironmentQuery& query) {
  const std::string rest =
      "/environment?need=" + std::string(query.need) + "&begin=" + (query.begins ? "1" : "0") +
      "&log=" + std::to_string(query.log_from) + "&wait=" + std::to_string(query.wait.count());
  std::string none;
  TRY_SET(const std::string answer,
          send(http::Method::get, wire::attempt_url(id_, rest), none, {}, kTimeout + query.wait));
  TRY_SET(const wire::Json json, wire::parse(answer));
  EnvironmentStand stand;
  TRY_SET(stand.state, wire::string_member(json, "state"));
  TRY_SET(stand.progress, wire::string_member(json, "progress"));
  TRY_SET(stand.log, wire::string_member(json, "log"));
  TRY_SET(const int64_t next, wire::int_member(json, "logNext"));
  stand.log_next = static_cast<uint64_t>(next);
  if (const auto error = json.find("error"); error != json.end()) {
    TRY_SET(const std::string kind, wire::string_member(*error, "kind"));
    stand.error.kind = error_kind_from(kind);
    TRY_SET(stand.error.message, wire::string_member(*error, "message"));
    TRY_SET(stand.error.hint, wire::string_member(*error, "hint"));
  }
  if (const auto realised = json.find("realised"); realised != json.end()) {
    TRY_SET(stand.realised, wire::decode_realised(*realised));
  }
  return stand;
}

Result<AttemptApi::Kept> AttemptApi::send_bytes(std::string target, std::string& bytes) {
  TRY_SET(const std::string answer,
          send(http::Method::post, std::move(target), bytes, "application/octet-stream", kTimeout));
  TRY_SET(const wire::Json json, wire::parse(answer));
  TRY_SET(const int64_t size, wire::int_member(json, "size"));
  // An earlier version does not say it, and nothing is given back.
  const int64_t durable =
      json.contains("durable") ? wire::int_member(json, "durable").value_or(0) : 0;
  return Kept{static_cast<uint64_t>(size), static_cast<uint64_t>(durable)};
}

Result<std::string> AttemptApi::send(http::Method method, std::string target, std::string& body,
                                     std::string_view type, milliseconds timeout) {
  http::ClientRequest request{.method = method, .target = std::move(target), .timeout = timeout};
  if (!type.empty()) request.headers["content-type"] = type;
  // Lent, not copied: a megabyte of console goes out from the one buffer it was read into.
  request.body = std::move(body);
  Result<http::Response> response = client_.send(request);
  body = std::move(request.body);
  body.clear();
  if (!response) return std::unexpected(std::move(response).error());
  if (response->status < 200 || response->status > 299) {
    return std::unexpected(wire::error_from_answer(response->status, response->body));
  }
  return std::move(response->body);
}

}  // namespace trainyard::client
