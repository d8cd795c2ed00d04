#include <fmt/format.h>

#include "api/backup.h"
#include "api/check.h"
#include "api/collector.h"
#include "api/metrics.h"
#include "api/openapi.h"
#include "api/route.h"
#include "base/version.h"

namespace trainyard::api {
namespace {

constexpr milliseconds kLockRetry{5};
constexpr std::chrono::hours kOwnTokenLife{30 * 24};
constexpr std::chrono::hours kOwnTokenRest{24};  // With less left, a new one is made.

constexpr std::string_view kPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Trainyard</title></head>
<body style="font: 16px/1.5 sans-serif; max-width: 40em; margin: 3em auto">
<h1>Trainyard</h1>
<p>This is a Trainyard server: it queues training runs, carries them and keeps what they print and
put out. Its web page comes with a later version; until then it is used by the command
<code>trainyard</code> and over HTTP.</p>
<p>The API is at <code>/api/v1</code>, described by <code>/api/v1/openapi.json</code>. Every request
carries a token: <code>Authorization: Bearer TOKEN</code>. On the server's machine,
<code>trainyard server status --show-token</code> prints one.</p>
</body></html>
)html";

Result<http::Response> show_page(const Call&) {
  http::Response response;
  response.headers = {{"content-type", "text/html; charset=utf-8"},
                      {"x-content-type-options", "nosniff"},
                      {"content-security-policy",
                       "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}};
  response.body = kPage;
  return response;
}

// A look into the database: a server that cannot do that is of no use to anybody.
Result<http::Response> show_health(const Call& call) {
  TRY(call.house.store.count_runs(RunStatus::running));
  return answer({{"status", "ok"}});
}

Result<http::Response> show_version(const Call&) { return answer({{"version", kVersion}}); }

Result<http::Response> show_metrics(const Call& call) {
  TRY_SET(std::string text, metrics_text(call.house));
  http::Response response;
  response.headers["content-type"] = "text/plain; version=0.0.4; charset=utf-8";
  response.body = std::move(text);
  return response;
}

Result<http::Response> show_openapi(const Call&) { return answer(openapi(all_routes())); }

// Kept in memory for as long as the server runs, so that asking often does not pile up tokens.
Result<std::string> own_token(const Call& call) {
  House& house = call.house;
  const WallTime now = house.clock.wall();
  return house.own_token.with([&](OwnToken& own) -> Result<std::string> {
    if (!own.secret.empty() && own.expires - now > kOwnTokenRest) return own.secret;
    const Result<User> made = house.store.create_user(call.identity.user, Role::admin);
    if (!made && made.error().kind != ErrorKind::conflict) return std::unexpected(made.error());
    const WallTime expires = now + kOwnTokenLife;
    TRY_SET(const auto token,
            house.store.create_token(call.identity.user, "server status --show-token", expires));
    own = {token.secret, expires};
    return own.secret;
  });
}

Result<http::Response> show_server(const Call& call) {
  const Facts& facts = call.house.facts;
  Json json = {{"pid", facts.pid},           {"url", facts.url},
               {"socket", facts.socket},     {"version", kVersion},
               {"user", call.identity.user}, {"home", call.house.home.root().string()},
               {"host", facts.host},         {"startedAt", format_time(facts.started)}};
  if (call.request.query_or("token", "0") != "1") return answer(json);
  TRY(check_may(call.identity, Needs::local_admin, Attempts::refused, call.request.peer.unix_socket,
                {}));
  TRY_SET(json["token"], own_token(call));
  return answer(json);
}

Result<http::Response> stop_server(const Call& call) {
  call.house.log.info("stop asked for", {{"by", call.identity.user}});
  call.house.request_stop();
  return answer({{"stopping", true}}, 202);
}

Result<std::unique_lock<std::mutex>> begin_upkeep(const Call& call) {
  std::unique_lock lock(call.house.upkeep, std::defer_lock);
  // A collection in the background ends at once and goes on another time.
  while (!lock.try_lock()) {
    const bool interrupted = call.house.collector != nullptr && call.house.collector->interrupt();
    if (interrupted) {
      call.house.clock.sleep_until(call.house.clock.steady() + kLockRetry, {});
    } else if (lock.try_lock()) {  // It has ended meanwhile.
      break;
    } else {
      return fail(ErrorKind::conflict, "a backup, a check or a collection is under way");
    }
  }
  return lock;
}

Result<http::Response> back_up(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string folder, wire::string_member(body, "folder"));
  TRY_SET(const bool without_key, wire::bool_member(body, "withoutKey"));
  TRY_SET(const auto busy, begin_upkeep(call));
  TRY_SET(const Json manifest, backup_to({call.house.home, call.house.store, call.house.clock},
                                         folder, without_key ? KeyFile::leave_out : KeyFile::copy));
  return answer(manifest);
}

Result<http::Response> check_server(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const bool content, wire::bool_member(body, "content"));
  TRY_SET(const auto busy, begin_upkeep(call));
  TRY_SET(const Json found, check_parts({call.house.store, call.house.blobs, call.house.logs},
                                        content ? CheckDepth::content : CheckDepth::presence));
  return answer(found);
}

Result<http::Response> collect_garbage(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const bool dry_run, wire::bool_member(body, "dryRun"));
  Collector* collector = call.house.collector;
  if (collector == nullptr) return fail(ErrorKind::conflict, "this server collects nothing");
  TRY(collector->begin(dry_run ? Collector::Mode::dry_run : Collector::Mode::remove));
  return answer(collector->state(), 202);
}

Result<http::Response> show_collection(const Call& call) {
  if (call.house.collector == nullptr) {
    return fail(ErrorKind::conflict, "this server collects nothing");
  }
  return answer(call.house.collector->state());
}

Result<http::Response> list_targets(const Call& call) {
  const control::Control::Load load = call.house.control->load();
  const Json local = {
      {"name", "local"},
      {"engine", "local"},
      {"cpus", load.capacity.cpus},
      {"memoryBytes", load.capacity.memory_bytes},
      {"gpus", load.capacity.gpus.size()},
      {"free",
       {{"cpus", load.capacity.cpus - load.cpus_used},
        {"memoryBytes", load.capacity.memory_bytes - load.memory_used_bytes},
        {"gpus", load.gpus_free}}},
      {"queued", load.queued},
      {"live", load.live},
  };
  return answer({{"items", Json::array({local})}, {"next", nullptr}});
}

using enum http::Method;
constexpr RouteRow kServerRoutes[] = {
    {get, "/", Needs::nothing, Attempts::refused, show_page, "Says what this is."},
    {get, "/health", Needs::nothing, Attempts::refused, show_health,
     "Says whether the server can do its work."},
    {get, "/version", Needs::nothing, Attempts::refused, show_version, "The server's version."},
    {get, "/metrics", Needs::reader, Attempts::refused, show_metrics,
     "Figures in Prometheus' text format."},
    {get, "/api/v1/openapi.json", Needs::reader, Attempts::allowed, show_openapi,
     "This description."},
    {get, "/api/v1/server", Needs::reader, Attempts::allowed, show_server,
     "Where the server is; with ?token=1, over the Unix socket, a token too.", "token"},
    {post, "/api/v1/server/stop", Needs::local_admin, Attempts::refused, stop_server,
     "Stops the server; runs go on."},
    {post, "/api/v1/server/backup", Needs::local_admin, Attempts::refused, back_up,
     "Copies the home to {\"folder\"}, which must be empty or new; with {\"withoutKey\": true} "
     "without the key of its secrets."},
    {post, "/api/v1/server/check", Needs::local_admin, Attempts::refused, check_server,
     "Looks for what is missing or damaged; with {\"content\": true} reads every blob."},
    {post, "/api/v1/server/gc", Needs::admin, Attempts::refused, collect_garbage,
     "Begins to remove what nothing refers to; with {\"dryRun\": true} only looks."},
    {get, "/api/v1/server/gc", Needs::admin, Attempts::refused, show_collection,
     "How far the collection is that was last asked for; its report when it is done."},
    {get, "/api/v1/targets", Needs::reader, Attempts::allowed, list_targets,
     "Lists the targets and what is free."},
};

}  // namespace

std::span<const RouteRow> server_routes() { return kServerRoutes; }

}  // namespace trainyard::api
