#include "api/route.h"

#include <algorithm>
#include <exception>

#include "api/errors.h"
#include "api/links.h"
#include "api/policy.h"
#include "api/realise.h"
#include "base/text.h"
#include "wire/parse.h"
#include "wire/urls.h"

namespace trainyard::api {
namespace {

constexpr seconds kSlow{1};

// A load balancer is answered however many others have connected.
constexpr std::string_view kHealth = "/health";
constexpr size_t kOpenBodyMax = 1024;  // Of a request by nobody knows whom; none needs a body.

constexpr seconds kOpeningMax{10};  // What a request waits for the server to be ready.

// The attempt in the URL, where there is one.
std::optional<AttemptId> attempt_in_url(const http::Request& request) {
  const auto run = request.params.find("id");
  const auto number = request.params.find("n");
  if (run == request.params.end() || number == request.params.end()) return std::nullopt;
  const Result<int64_t> parsed = parse_int(number->second, "attempt");
  if (!parsed || *parsed < 1 || *parsed > INT32_MAX) return std::nullopt;
  return AttemptId{RunId{run->second}, static_cast<int>(*parsed)};
}

// The workspace in the URL, where there is one.
std::string_view workspace_in_url(const RouteRow& row, const http::Request& request) {
  constexpr std::string_view kBefore = "/api/v1/workspaces/{";
  if (!row.pattern.starts_with(kBefore)) return {};
  const std::string_view rest = row.pattern.substr(kBefore.size());
  return request.param(rest.substr(0, rest.find('}')));
}

// A workspace that does not exist is the handler's to answer.
Status check_workspace_in_url(House& house, const RouteRow& row, const http::Request& request,
                              const store::Identity& identity) {
  const std::string_view workspace = workspace_in_url(row, request);
  const std::optional<Role> needed = role_needed(row.needs);
  if (workspace.empty() || !needed) return {};
  Status may = check_role_in(house, identity, workspace, *needed);
  if (!may && may.error().kind == ErrorKind::not_found) return {};
  return may;
}

// Who asks, if they may; else the answer that says why not.
std::variant<store::Identity, http::Response> admit(House& house, const RouteRow& row,
                                                    const http::Request& request) {
  if (!house.is_open()) {
    // Who comes while runs are being taken up again waits: a second command at the first start.
    const SteadyTime until = request.arrived + kOpeningMax;
    if (row.upload == nullptr && house.clock.steady() < until) {
      return http::Response::parked(std::string(House::kOpenKey), until);
    }
    return error_response({ErrorKind::unavailable, "the server is starting", "Try again."});
  }
  if (Status host = check_host(house.facts, request); !host) return error_response(host.error());
  if (row.needs == Needs::nothing) return store::Identity{};
  const bool by_link = row.links && has_link(request) && request.header("authorization").empty();
  Result<store::Identity> identity =
      by_link ? identify_link(house, request) : identify(house, request);
  if (!identity && by_link) return error_response(identity.error());
  if (!identity) {
    const int status =
        identity.error().kind == ErrorKind::denied ? 401 : wire::http_status(identity.error().kind);
    return error_response(status, identity.error());
  }
  const Status may = check_may(*identity, row.needs, row.attempts, request.peer.unix_socket,
                               attempt_in_url(request));
  if (!may) return error_response(may.error());
  if (Status in = check_workspace_in_url(house, row, request, *identity); !in) {
    return error_response(in.error());
  }
  return *std::move(identity);
}

// Our bugs and slow requests leave a line; what the caller did wrong is in the answer alone.
void note(House& house, const RouteRow& row, const http::Response& response, SteadyTime began) {
  if (response.wait) return;
  const microseconds took = house.clock.steady() - began;
  if (response.status < 500 && took < kSlow) return;
  house.log.warn(response.status < 500 ? "slow request" : "failed request",
                 {{"method", http::to_string(row.method)},
                  {"route", row.pattern},
                  {"status", response.status},
                  {"ms", std::chrono::duration_cast<milliseconds>(took).count()},
                  {"error", response.status < 500 ? "" : response.body}});
}

template <class F>
http::Response guarded(House& house, const RouteRow& row, F&& f) {
  const SteadyTime began = house.clock.steady();
  http::Response response;
  try {
    Result<http::Response> result = f();
    response = result ? *std::move(result) : error_response(result.error());
  } catch (const std::exception& error) {
    response = error_response({ErrorKind::internal, error.what(), "This is a bug of ours."});
  }
  note(house, row, response, began);
  return response;
}

http::Handler handler(House& house, const RouteRow& row) {
  return [&house, row](const http::Request& request) {
    return guarded(house, row, [&]() -> Result<http::Response> {
      auto admitted = admit(house, row, request);
      if (auto* refusal = std::get_if<http::Response>(&admitted)) return std::move(*refusal);
      return row.act({house, request, std::get<store::Identity>(admitted)});
    });
  };
}

// The checks of handler(), before the body is read; an answer says why it is refused.
http::Admission admission(House& house, const RouteRow& row) {
  return [&house, row](const http::Request& request) -> std::optional<http::Response> {
    auto admitted = admit(house, row, request);
    if (auto* refusal = std::get_if<http::Response>(&admitted)) return std::move(*refusal);
    return std::nullopt;
  };
}

http::UploadHandler upload_handler(House& house, const RouteRow& row) {
  using Opened = std::variant<http::Upload, http::Response>;
  return [&house, row](const http::Request& request) -> Opened {
    http::Upload upload;
    bool opened = false;
    http::Response refused = guarded(house, row, [&]() -> Result<http::Response> {
      auto admitted = admit(house, row, request);
      if (auto* refusal = std::get_if<http::Response>(&admitted)) return std::move(*refusal);
      TRY_SET(upload, row.upload({house, request, std::get<store::Identity>(admitted)}));
      opened = true;
      return http::Response{};
    });
    if (!opened) return refused;
    upload.finish = [&house, row, finish = std::move(upload.finish)](const http::Request& ended) {
      return guarded(house, row, [&]() -> Result<http::Response> { return finish(ended); });
    };
    return upload;
  };
}

}  // namespace

std::vector<RouteRow> all_routes() {
  std::vector<RouteRow> all;
  for (const auto rows :
       {server_routes(), user_routes(), workspace_routes(), run_routes(), file_routes(),
        attempt_routes(), blob_routes(), metric_routes(), secret_routes(), output_routes(),
        node_routes(), compute_routes(), machine_routes(), exec_routes(), realise_routes(),
        environment_routes(), deletion_routes(), policy_routes()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

void add_routes(http::Router& router, House& house) {
  for (const RouteRow& row : all_routes()) {
    http::Route route{.method = row.method,
                      .pattern = std::string(row.pattern),
                      .handler = {},
                      .upload = {},
                      .body_max = row.body_max,
                      .reserved = row.pattern == kHealth};
    if (row.needs == Needs::nothing) route.body_max = kOpenBodyMax;
    if (row.upload != nullptr) {
      route.upload = upload_handler(house, row);
    } else {
      route.handler = handler(house, row);
      if (row.needs != Needs::nothing) route.admit = admission(house, row);
    }
    router.add(std::move(route));
  }
}

http::Response answer(const Json& json, int status) {
  return http::Response::json(wire::dump(json), status);
}

http::Response no_content() { return http::Response{.status = 204}; }

Result<int64_t> query_number(const http::Request& request, std::string_view name, int64_t otherwise,
                             NumberRange range) {
  const std::string_view text = request.query_or(name, "");
  if (text.empty()) return otherwise;
  TRY_SET(const int64_t value, parse_int(text, name));
  if (value < range.min || value > range.max) {
    return fail(ErrorKind::invalid, std::string(name) + " must be between " +
                                        std::to_string(range.min) + " and " +
                                        std::to_string(range.max));
  }
  return value;
}

Result<std::optional<SteadyTime>> may_wait_until(const Call& call) {
  TRY_SET(const int64_t wait_s, query_number(call.request, "wait", 0));
  const int64_t cut = std::min<int64_t>(wait_s, wire::kWaitSecondsMax);
  const SteadyTime until = call.request.arrived + seconds(cut);
  if (call.house.stopping() || call.house.clock.steady() >= until) return std::nullopt;
  return until;
}

Result<Window> window_of(const http::Request& request, int64_t limit_default) {
  TRY_SET(const int64_t limit, query_number(request, "limit", limit_default, {1, INT64_MAX}));
  TRY_SET(const int64_t first, query_number(request, "cursor", 0));
  return Window{static_cast<size_t>(first), static_cast<size_t>(std::min(limit, kLimitMax))};
}

Result<Json> body_object(const http::Request& request) {
  if (trim(request.body).empty()) return Json::object();
  TRY_SET(Json json, wire::parse(request.body, {.stop = request.client_left}));
  if (!json.is_object()) return fail(ErrorKind::invalid, "the body must be a JSON object");
  return json;
}

Result<std::string> own_workspace(const Call& call) {
  TRY_SET(const Run run, call.house.store.run(call.identity.attempt->run));
  return run.spec.workspace;
}

Status check_workspace(const Call& call, std::string_view workspace, Role needed) {
  return check_role_in(call.house, call.identity, workspace, needed);
}

namespace {

Result<store::RunAccess> run_in_url(const Call& call) {
  RunId id{std::string(call.request.param("id"))};
  if (!call.house.watch.knows(id)) {
    TRY(check_name(id.value, "run id"));
    TRY_SET(id, call.house.store.find_run(id.value));
  }
  // Nothing is closed to an admin, and an attempt reads its own run all the time.
  const bool own = call.identity.attempt && call.identity.attempt->run == id;
  if (own || (call.identity.role == Role::admin && !call.identity.workspace)) {
    return store::RunAccess{.id = std::move(id), .user = {}, .parent = {}, .workspace = {}};
  }
  store::RunAccess access;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(access, store::run_access(db, id, call.identity.user));
    return {};
  };
  TRY(call.house.store.read(look));
  TRY(check_role_in(call.identity, access.workspace, Role::reader));
  return access;
}

}  // namespace

Result<RunId> readable_run(const Call& call) {
  TRY_SET(store::RunAccess run, run_in_url(call));
  return std::move(run.id);
}

Result<RunId> writable_run(const Call& call) {
  TRY_SET(store::RunAccess run, run_in_url(call));
  if (run.workspace.id == 0) return std::move(run.id);
  if (call.identity.attempt) {
    if (run.parent == call.identity.attempt->run.value) return std::move(run.id);
    return fail(ErrorKind::denied, "an attempt's token changes its own run and children only");
  }
  TRY(check_role_in(call.identity, run.workspace, Role::submitter));
  const bool admin = role_in(call.identity, run.workspace) == Role::admin;
  if (admin || run.user == call.identity.user) return std::move(run.id);
  return fail(ErrorKind::denied, "the run is " + run.user + "'s; only they or an admin change it");
}

}  // namespace trainyard::api
