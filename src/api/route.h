#pragma once

#include <span>
#include <string_view>

#include "api/auth.h"
#include "api/house.h"
#include "http/router.h"
#include "wire/json.h"

namespace trainyard::api {

using wire::Json;

// A request whose sender was found to be allowed.
struct Call {
  House& house;
  const http::Request& request;
  const store::Identity& identity;
};

using Act = Result<http::Response> (*)(const Call&);
using OpenUpload = Result<http::Upload> (*)(const Call&);

// One line of the API. The tables of all routes are in routes_*.cc; the router, the checks and
// openapi.json are made from them.
struct RouteRow {
  http::Method method = http::Method::get;
  std::string_view pattern;
  Needs needs = Needs::admin;
  Attempts attempts = Attempts::refused;
  Act act = nullptr;       // One of the two.
  std::string_view says;   // What it does, a sentence.
  std::string_view query;  // Names of the query's keys, by blanks.
  size_t body_max = 1024 * 1024;
  OpenUpload upload = nullptr;
  bool links = false;  // A signed link (links.h) opens it too.
};

std::span<const RouteRow> server_routes();
std::span<const RouteRow> user_routes();
std::span<const RouteRow> workspace_routes();
std::span<const RouteRow> run_routes();
std::span<const RouteRow> deletion_routes();
std::span<const RouteRow> file_routes();
std::span<const RouteRow> attempt_routes();
std::span<const RouteRow> blob_routes();
std::span<const RouteRow> metric_routes();
std::span<const RouteRow> secret_routes();
std::span<const RouteRow> output_routes();
std::span<const RouteRow> compute_routes();
std::span<const RouteRow> node_routes();
std::span<const RouteRow> machine_routes();
std::span<const RouteRow> exec_routes();
std::span<const RouteRow> environment_routes();
// All of them.
std::vector<RouteRow> all_routes();

// Puts the routes into `router`, each behind the checks of auth.h. `house` must outlive it.
void add_routes(http::Router& router, House& house);

// ---- what handlers share ----

http::Response answer(const Json& json, int status = 200);
http::Response no_content();

// A whole number of the query; `invalid` outside [min, max].
struct NumberRange {
  int64_t min = 0;
  int64_t max = INT64_MAX;
};
Result<int64_t> query_number(const http::Request& request, std::string_view name, int64_t otherwise,
                             NumberRange range = {});

// Until when the request may be parked, by ?wait=SECONDS; nothing when it is time to answer.
Result<std::optional<SteadyTime>> may_wait_until(const Call& call);

// ?limit&cursor of a list that is read whole.
struct Window {
  size_t first = 0;
  size_t limit = 100;
};
inline constexpr int64_t kLimitDefault = 100;
inline constexpr int64_t kLimitMax = 1000;
Result<Window> window_of(const http::Request& request, int64_t limit_default = kLimitDefault);
// {"items": […], "next"} of the part of `count` items that is asked for; `item` makes the nth.
template <class Item>
http::Response answer_page(const Window& window, size_t count, Item&& item) {
  Json items = Json::array();
  size_t at = window.first;
  for (; at < count && items.size() < window.limit; ++at) items.push_back(item(at));
  return answer(
      {{"items", std::move(items)}, {"next", at < count ? Json(std::to_string(at)) : Json()}});
}

// The body as a JSON object.
Result<Json> body_object(const http::Request& request);

// The run that {id} begins; not_found, or denied to who may not look into its workspace.
Result<RunId> readable_run(const Call& call);
// The same, and the caller may change it: who made it, an admin of the server or of its workspace,
// or an attempt its own run and children.
Result<RunId> writable_run(const Call& call);
// Routes below /workspaces/{…} are checked before their handler runs.
inline std::string_view workspace_in(const Call& call) { return call.request.param("workspace"); }
// `denied` unless the caller has this role in the workspace: for names that are not in the URL.
Status check_workspace(const Call& call, std::string_view workspace, Role needed = Role::reader);
// Says which machine `local` is, and refuses one that is not for who asks. routes_machines.cc.
Status settle_target(const Call& call, RunSpec& spec);
// May the caller name this tree in what they submit to the workspace? routes_blobs.cc.
Status check_may_name(const Call& call, std::string_view workspace, std::string_view tree);
// When what is deleted now counts as deleted: ?now=1 leaves no time to restore it.
// routes_deletion.cc.
Result<WallTime> deletion_time(const Call& call);
// Has rows removed that nobody can restore any more.
void purge_soon(const Call& call);
// The user whose things the caller may delete in a workspace; empty for its admins, who may delete
// everybody's.
Result<std::string_view> owner_in(const Call& call, db::Db& db, std::string_view workspace);
// The workspace of the attempt whose token this is.
Result<std::string> own_workspace(const Call& call);

}  // namespace trainyard::api
