#include "client/api.h"

#include <algorithm>

#include "base/text.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

using http::encode_url;
using http::Method;

constexpr std::chrono::seconds kGrace{15};  // On top of what we asked the server to wait.
constexpr std::chrono::seconds kLong{
    600};  // For a backup or a check: no byte comes until it is done.
constexpr int kPage = 1000;
constexpr size_t kStateMax = 1024 * 1024;

std::string api(std::string_view rest) { return std::string(wire::kApi).append(rest); }

void add_query(std::string& target, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  target += target.find('?') == std::string::npos ? '?' : '&';
  target.append(key).append("=").append(encode_url(value));
}

Result<FollowState> decode_state(std::string_view text) {
  TRY_SET(const Json json, wire::parse(text));
  FollowState state;
  TRY_SET(state.status, wire::string_member(json, "status"));
  TRY_SET(state.reason, wire::string_member(json, "reason"));
  TRY_SET(state.version, wire::int_member(json, "version"));
  TRY_SET(state.final, wire::bool_member(json, "final"));
  TRY_SET(state.warned, wire::bool_member(json, "warned"));
  if (json.contains("exitCode") && json["exitCode"].is_number_integer()) {
    state.exit_code = json["exitCode"].get<int>();
  }
  if (json.contains("error") && json["error"].is_string()) state.error = json["error"];
  TRY_SET(const int64_t attempt, wire::int_member(json, "attempt"));
  state.attempt = static_cast<int>(attempt);
  if (json.contains("next") && json["next"].is_array()) {
    for (const Json& offset : json["next"]) {
      if (!offset.is_number_unsigned()) return fail(ErrorKind::internal, "follow: a bad offset");
      state.next.push_back(offset.get<uint64_t>());
    }
  }
  return state;
}

// Where to read on in a file.
Result<uint64_t> next_of(const http::Response& response, uint64_t otherwise) {
  const auto next = response.headers.find("x-next");
  if (next == response.headers.end()) return otherwise;
  TRY_SET(const int64_t value, parse_int(next->second, "x-next"));
  return static_cast<uint64_t>(value);
}

}  // namespace

// ---- console frames ----

Status FollowReader::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left_ == 0) {
      const size_t wanted = wire::kFollowHeadSize - head_.size();
      head_.append(bytes.substr(0, wanted));
      bytes.remove_prefix(std::min(wanted, bytes.size()));
      if (head_.size() < wire::kFollowHeadSize) return {};
      const wire::FollowHead head = wire::parse_follow_head(head_.data());
      head_.clear();
      kind_ = head.kind;
      rank_ = head.rank;
      left_ = head.size;
      if (kind_ != 'o' && kind_ != 'e' && kind_ != 's') {
        return fail(ErrorKind::internal, "follow: a frame of unknown kind");
      }
      if (kind_ == 's') {
        if (left_ > kStateMax) return fail(ErrorKind::internal, "follow: a frame too large");
        state_.clear();
        has_state_ = true;
      }
      continue;
    }
    const std::string_view piece = bytes.substr(0, left_);
    bytes.remove_prefix(piece.size());
    TRY(take(piece));
  }
  return {};
}

Status FollowReader::take(std::string_view bytes) {
  left_ -= static_cast<uint32_t>(bytes.size());
  if (kind_ == 's') {
    state_.append(bytes);
    return {};
  }
  bytes_ += bytes.size();
  return sink_(kind_, rank_, bytes);
}

Result<FollowState> FollowReader::finish() {
  if (!has_state_ || left_ > 0 || !head_.empty()) {
    return fail(ErrorKind::unavailable, "the server's answer was cut short");
  }
  TRY_SET(FollowState state, decode_state(state_));
  state.bytes = bytes_;
  return state;
}

// ---- calls ----

void Api::interrupt() {
  const std::lock_guard lock(mutex_);
  client_.interrupt();
}

Result<http::Response> Api::send(const http::ClientRequest& request) {
  Result<http::Response> answer = client_.send(request);
  // The server may have died under this request. What may be asked twice is asked of the next one:
  // a read, and a submission, whose id makes it the same. A sink may have taken part of an answer.
  const bool twice = request.method == Method::get || request.target == api("/runs");
  if (!answer && answer.error().kind == ErrorKind::unavailable && revive_ && twice &&
      !request.sink) {
    if (Result<http::Client> next = revive_()) {
      {
        const std::lock_guard lock(mutex_);
        client_ = *std::move(next);
      }
      answer = client_.send(request);
    }
  }
  if (!answer) return answer;
  http::Response response = *std::move(answer);
  if (trace_) {
    trace_(std::string(http::to_string(request.method)) + " " + request.target + ": " +
           std::to_string(response.status));
  }
  if (response.status / 100 != 2) {
    return std::unexpected(wire::error_from_answer(response.status, response.body));
  }
  return response;
}

Result<Json> Api::call(Method method, std::string target) {
  TRY_SET(const http::Response response, send({.method = method, .target = std::move(target)}));
  if (response.body.empty()) return Json();
  return wire::parse(response.body);
}

Result<Json> Api::call(Method method, std::string target, const Json& body) {
  http::ClientRequest request{.method = method, .target = std::move(target)};
  request.headers["content-type"] = "application/json";
  request.body = wire::dump(body);
  if (request.target.find("/server/") != std::string::npos) request.timeout = kLong;
  TRY_SET(const http::Response response, send(request));
  if (response.body.empty()) return Json();
  return wire::parse(response.body);
}

// Every page of a list, as one array.
Result<Json> Api::all(const std::string& target) {
  Json items = Json::array();
  std::string cursor;
  do {
    std::string page_target = target;
    add_query(page_target, "limit", std::to_string(kPage));
    add_query(page_target, "cursor", cursor);
    TRY_SET(Json page, call(Method::get, page_target));
    if (page.is_array()) return page;
    for (Json& item : page["items"]) items.push_back(std::move(item));
    const Json next = page.value("next", Json());
    cursor = next.is_string() ? next.get<std::string>() : next.is_null() ? "" : wire::dump(next);
  } while (!cursor.empty());
  return items;
}

Result<Json> Api::server(bool with_token) {
  return call(Method::get, api(with_token ? "/server?token=1" : "/server"));
}

Status Api::stop_server() {
  TRY(call(Method::post, api("/server/stop"), Json::object()));
  return {};
}

Result<Json> Api::backup(std::string_view folder, bool without_key) {
  return call(Method::post, api("/server/backup"),
              {{"folder", folder}, {"withoutKey", without_key}});
}

Result<Json> Api::check(bool content) {
  return call(Method::post, api("/server/check"), {{"content", content}});
}

Result<Json> Api::begin_collection(bool dry_run) {
  return call(Method::post, api("/server/gc"), {{"dryRun", dry_run}});
}

Result<Json> Api::collection() { return call(Method::get, api("/server/gc")); }

Result<Json> Api::version() { return call(Method::get, "/version"); }

Result<Json> Api::users() { return all(api("/users")); }

Result<Json> Api::create_user(std::string_view name, std::string_view role) {
  return call(Method::post, api("/users"), {{"name", name}, {"role", role}});
}

Result<Json> Api::update_user(std::string_view name, std::string_view role) {
  return call(Method::patch, api("/users/" + encode_url(name)), {{"role", role}});
}

Status Api::delete_user(std::string_view name) {
  TRY(call(Method::del, api("/users/" + encode_url(name))));
  return {};
}

Result<Json> Api::tokens() { return all(api("/tokens")); }

Result<Json> Api::create_token(const TokenWanted& wanted) {
  Json body = {{"label", wanted.label}};
  if (!wanted.user.empty()) body["user"] = wanted.user;
  if (!wanted.role.empty()) body["role"] = wanted.role;
  if (wanted.lifetime_s > 0) body["expiresInSeconds"] = wanted.lifetime_s;
  return call(Method::post, api("/tokens"), body);
}

Status Api::revoke_token(std::string_view id) {
  TRY(call(Method::del, api("/tokens/" + encode_url(id))));
  return {};
}

Result<Json> Api::targets() { return all(api("/targets")); }

Result<Json> Api::secrets(std::string_view workspace) {
  return all(api("/workspaces/" + encode_url(workspace) + "/secrets"));
}

Result<Json> Api::set_secret(std::string_view workspace, std::string_view name,
                             std::string_view value) {
  return call(Method::put,
              api("/workspaces/" + encode_url(workspace) + "/secrets/" + encode_url(name)),
              {{"value", value}});
}

Status Api::delete_secret(std::string_view workspace, std::string_view name) {
  TRY(call(Method::del,
           api("/workspaces/" + encode_url(workspace) + "/secrets/" + encode_url(name))));
  return {};
}

Result<Json> Api::workspaces() { return all(api("/workspaces")); }

Result<Json> Api::workspace(std::string_view name) {
  return call(Method::get, api("/workspaces/" + encode_url(name)));
}

Result<Json> Api::create_workspace(const Workspace& workspace) {
  return call(Method::post, api("/workspaces"),
              {{"name", workspace.name},
               {"subscriptionId", workspace.subscription_id},
               {"resourceGroup", workspace.resource_group},
               {"location", workspace.location},
               {"imageBuildCompute", workspace.image_build_compute},
               {"access", to_string(workspace.access)}});
}

Result<Json> Api::members(std::string_view workspace) {
  return all(api("/workspaces/" + encode_url(workspace) + "/members"));
}

Result<Json> Api::set_member(std::string_view workspace, std::string_view user,
                             std::string_view role) {
  return call(Method::put,
              api("/workspaces/" + encode_url(workspace) + "/members/" + encode_url(user)),
              {{"role", role}});
}

Status Api::remove_member(std::string_view workspace, std::string_view user) {
  TRY(call(Method::del,
           api("/workspaces/" + encode_url(workspace) + "/members/" + encode_url(user))));
  return {};
}

Status Api::delete_workspace(std::string_view name) {
  TRY(call(Method::del, api("/workspaces/" + encode_url(name))));
  return {};
}

Result<Json> Api::experiments(std::string_view workspace) {
  return all(api("/workspaces/" + encode_url(workspace) + "/experiments"));
}

// ---- runs ----

Result<Json> Api::submit(const RunId& id, const RunSpec& spec) {
  return call(Method::post, api("/runs"), {{"id", id.value}, {"spec", wire::encode(spec)}});
}

Result<Page> Api::runs(const RunQuery& query, int limit, std::string_view cursor) {
  std::string target = api("/runs");
  add_query(target, "workspace", query.workspace);
  add_query(target, "experiment", query.experiment);
  add_query(target, "status", query.status);
  add_query(target, "target", query.target);
  add_query(target, "user", query.user);
  add_query(target, "parent", query.parent);
  add_query(target, "tag", query.tag);
  add_query(target, "tags", query.tags);
  add_query(target, "archived", query.archived);
  add_query(target, "children", query.children ? "1" : "");
  add_query(target, "deleted", query.deleted);
  add_query(target, "named", query.named);
  add_query(target, "limit", std::to_string(limit));
  add_query(target, "cursor", cursor);
  TRY_SET(Json answer, call(Method::get, target));
  Page page;
  if (!answer.is_object() || !answer.contains("items")) {
    return fail(ErrorKind::internal, "GET /runs: an answer without items");
  }
  page.items = std::move(answer["items"]);
  const Json next = answer.value("next", Json());
  if (!next.is_null()) page.next = next.is_string() ? next.get<std::string>() : wire::dump(next);
  return page;
}

Result<Json> Api::run(const RunId& id) { return call(Method::get, wire::run_url(id)); }

Result<RunSpec> Api::spec(const RunId& id) {
  TRY_SET(const Json json, call(Method::get, wire::run_url(id, "/spec")));
  return wire::decode_run_spec(json);
}

Result<Json> Api::update(const RunId& id, const Json& changes) {
  return call(Method::patch, wire::run_url(id), changes);
}

Result<Json> Api::metrics(const RunId& id) {
  return call(Method::get, wire::run_url(id, "/metrics"));
}

Result<Json> Api::series(const RunId& id, std::string_view name, int64_t from, int limit) {
  std::string target = wire::run_url(id, "/series");
  add_query(target, "name", name);
  add_query(target, "from", std::to_string(from));
  add_query(target, "limit", std::to_string(limit));
  return call(Method::get, target);
}

Result<Json> Api::cancel(const RunId& id) {
  return call(Method::post, wire::run_url(id, "/cancel"), Json::object());
}

Result<Json> Api::delete_run(const RunId& id, bool now) {
  return call(Method::del, wire::run_url(id, now ? "?now=1" : ""));
}

Result<Json> Api::restore_run(const RunId& id) {
  return call(Method::post, wire::run_url(id, "/restore"), Json::object());
}

Result<Json> Api::delete_experiment(std::string_view workspace, std::string_view name, bool now) {
  std::string target = api("/workspaces/") + encode_url(workspace) + "/experiments";
  add_query(target, "name", name);
  if (now) add_query(target, "now", "1");
  return call(Method::del, target);
}

Result<Json> Api::restore_experiment(std::string_view workspace, std::string_view name) {
  return call(Method::post, api("/workspaces/") + encode_url(workspace) + "/experiments/restore",
              {{"name", name}});
}

Result<Json> Api::wait(const RunId& id, int64_t version, int wait_s) {
  http::ClientRequest request{.target = wire::run_url(id, "/wait?version=")};
  request.target += std::to_string(version) + "&wait=" + std::to_string(wait_s);
  request.timeout = std::chrono::seconds(wait_s) + kGrace;
  TRY_SET(const http::Response response, send(std::move(request)));
  return wire::parse(response.body);
}

Result<FollowState> Api::follow(const RunId& id, const FollowQuery& query,
                                const ConsoleSink& sink) {
  std::string offsets;
  for (const uint64_t offset : query.from) {
    if (!offsets.empty()) offsets += ',';
    offsets += std::to_string(offset);
  }
  http::ClientRequest request{.target = wire::run_url(id, "/follow?from=")};
  request.target += (offsets.empty() ? "0" : offsets) + "&version=" + std::to_string(query.version);
  request.target += "&wait=" + std::to_string(query.wait_s);
  if (query.rank) request.target += "&rank=" + std::to_string(*query.rank);
  request.timeout = std::chrono::seconds(query.wait_s) + kGrace;
  FollowReader reader(sink);
  request.sink = [&](std::string_view bytes) { return reader.feed(bytes); };
  TRY_SET(const http::Response response, send(std::move(request)));
  // A client that found the answer short enough may have kept it instead.
  if (!response.body.empty()) TRY(reader.feed(response.body));
  return reader.finish();
}

// ---- files ----

Result<Json> Api::files(const RunId& id) { return all(wire::run_url(id, "/files")); }

Result<FilePart> Api::file(const RunId& id, std::string_view path, uint64_t from, int wait_s,
                           const ByteSink& sink) {
  http::ClientRequest request{.target = wire::file_url(id, path, from, wait_s)};
  request.timeout = std::chrono::seconds(wait_s) + kGrace;
  uint64_t got = 0;
  request.sink = [&](std::string_view bytes) {
    got += bytes.size();
    return sink(bytes);
  };
  TRY_SET(const http::Response response, send(std::move(request)));
  FilePart part;
  TRY_SET(part.next, next_of(response, from + got));
  const auto final = response.headers.find("x-final");
  part.final = final != response.headers.end() && final->second == "1";
  return part;
}

Result<Api::Stretch> Api::tail(const RunId& id, std::string_view console, int lines) {
  return stretch(wire::file_url(id, console, 0, 0) + "&tail=" + std::to_string(lines));
}

Result<Api::Stretch> Api::attempt(const RunId& id, std::string_view console, int attempt) {
  return stretch(wire::file_url(id, console, 0, 0) + "&attempt=" + std::to_string(attempt));
}

// By the answer's length and where it ends.
Result<Api::Stretch> Api::stretch(std::string target) {
  uint64_t got = 0;
  http::ClientRequest request{.target = std::move(target)};
  request.sink = [&](std::string_view bytes) -> Status {
    got += bytes.size();
    return {};
  };
  TRY_SET(const http::Response response, send(std::move(request)));
  TRY_SET(const uint64_t end, next_of(response, got));
  return Stretch{end - std::min(end, got), end};
}

Result<snapshot::Tree> Api::outputs(const RunId& id) { return tree(id, "/outputs"); }

Result<snapshot::Tree> Api::snapshot(const RunId& id) { return tree(id, "/snapshot"); }

Result<snapshot::Tree> Api::tree(const RunId& id, std::string_view which) {
  TRY_SET(const http::Response response, send({.target = wire::run_url(id, which)}));
  return snapshot::decode(response.body);
}

}  // namespace trainyard::client
