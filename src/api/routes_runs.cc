#include <algorithm>

#include "api/realise.h"
#include "api/recipe_rights.h"
#include "api/route.h"
#include "base/text.h"
#include "wire/urls.h"

namespace trainyard::api {
namespace {

constexpr size_t kSubmitBodyMax = 4 << 20;
// Of console in an answer to a follower: 500 slow ones of them are 32 MB.
constexpr size_t kFollowMax = 64 * 1024;
constexpr size_t kFollowRankMin = 4 * 1024;  // So that no rank waits for another to fall silent.

Json shown(const Call& call, const Run& run) {
  return wire::run_to_json(run, call.house.clock.wall(), call.house.facts.url);
}

Result<http::Response> submit(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string id, wire::string_member(body, "id"));
  TRY(check_name(id, "run id"));
  const auto spec = body.find("spec");
  if (spec == body.end()) return fail(ErrorKind::invalid, "spec: is missing");
  control::Submission submission{.id = RunId{id}, .spec = {}, .user = call.identity.user};
  Result<RunSpec> decoded = wire::decode_run_spec(*spec);
  if (!decoded) return std::unexpected(std::move(decoded).error().within("spec"));
  submission.spec = *std::move(decoded);
  TRY(check_spec(submission.spec));
  TRY(check_workspace(call, submission.spec.workspace));
  TRY(settle_target(call, submission.spec));
  TRY(check_recipe_rights(call, submission.spec.workspace, submission.spec.environment));
  TRY_SET(const control::Submitted submitted, call.house.control->submit(submission));
  if (submitted.created) make_ahead(call.house, submitted.run);
  return answer(shown(call, submitted.run), submitted.created ? 201 : 200);
}

Status add_labels_to(store::RunFilter& filter, const http::Request& request) {
  const std::string_view tag = request.query_or("tag", "");
  const size_t equals = tag.find('=');
  filter.tag = tag.substr(0, equals);
  if (equals != std::string_view::npos) filter.tag_value = tag.substr(equals + 1);
  TRY_SET(const int64_t children, query_number(request, "children", 0, {0, 1}));
  filter.children = children == 1;
  const std::string_view archived = request.query_or("archived", "no");
  using enum store::RunFilter::Archived;
  if (archived != "no" && archived != "only" && archived != "any") {
    return fail(ErrorKind::invalid, "archived: must be no, only or any");
  }
  filter.archived = archived == "only" ? only : archived == "any" ? any : no;
  return {};
}

Result<store::RunFilter> filter_of(const Call& call) {
  const http::Request& request = call.request;
  store::RunFilter filter{.workspace = std::string(request.query_or("workspace", "")),
                          .experiment = std::string(request.query_or("experiment", "")),
                          .status = std::string(request.query_or("status", "")),
                          .target = std::string(request.query_or("target", ""))};
  if (!filter.status.empty()) TRY(run_status_from(filter.status));
  TRY(add_labels_to(filter, request));
  if (!filter.workspace.empty()) TRY(call.house.store.workspace(filter.workspace));
  if (call.identity.attempt) {
    TRY_SET(const std::string own, own_workspace(call));
    if (filter.workspace.empty()) filter.workspace = own;
    TRY(check_workspace(call, filter.workspace));
  }
  TRY_SET(const Window window, window_of(request));
  filter.limit = static_cast<int>(window.limit);
  filter.before = static_cast<int64_t>(window.first);
  return filter;
}

Result<http::Response> list_runs(const Call& call) {
  TRY_SET(store::RunFilter filter, filter_of(call));
  if (const std::string_view parent = call.request.query_or("parent", ""); !parent.empty()) {
    TRY_SET(const RunId id, call.house.store.find_run(parent));
    TRY_SET(const Run found, call.house.store.run(id));
    filter.parent = found.number;
  }
  const auto limit = static_cast<size_t>(filter.limit);
  ++filter.limit;  // One more tells whether there is a next page.
  TRY_SET(std::vector<Run> runs, call.house.control->runs(filter));
  const bool more = runs.size() > limit;
  if (more) runs.resize(limit);
  Json items = Json::array();
  for (const Run& run : runs) items.push_back(shown(call, run));
  Json next = more ? Json(std::to_string(runs.back().number)) : Json();
  return answer({{"items", std::move(items)}, {"next", std::move(next)}});
}

Result<http::Response> show_run(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  TRY_SET(const Run run, call.house.control->run(id));
  return answer(shown(call, run));
}

Result<http::Response> cancel_run(const Call& call) {
  TRY_SET(const RunId id, writable_run(call));
  TRY_SET(const Run run, call.house.control->cancel(id, call.identity.user));
  return answer(shown(call, run));
}

// All that was submitted, for another run like it.
Result<http::Response> show_spec(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  TRY_SET(const Run run, call.house.store.run(id));
  return answer(wire::encode(run.spec));
}

Result<std::string> text_of(const Json& value, std::string_view what) {
  if (value.is_string()) return value.get<std::string>();
  // Numbers are read back as texts.
  if (value.is_number() || value.is_boolean()) return wire::dump(value);
  return fail(ErrorKind::invalid, std::string(what) + ": must be a text");
}

Result<control::LabelChanges> changes_of(const Json& body) {
  control::LabelChanges changes;
  for (const auto& [key, value] : body.items()) {
    if (key == "tags" || key == "properties") {
      if (!value.is_object()) return fail(ErrorKind::invalid, key + ": must be an object");
      for (const auto& [name, item] : value.items()) {
        if (key == "tags" && item.is_null()) {
          changes.tags[name] = std::nullopt;
          continue;
        }
        TRY_SET(std::string text, text_of(item, key + "." + name));
        if (key == "tags") {
          changes.tags[name] = std::move(text);
        } else {
          changes.properties[name] = std::move(text);
        }
      }
    } else if (key == "displayName") {
      TRY_SET(changes.display_name, text_of(value, key));
    } else if (key == "description") {
      TRY_SET(changes.description, text_of(value, key));
    } else if (key == "archived") {
      TRY_SET(changes.archived, wire::bool_member(body, key));
    } else {
      return fail(ErrorKind::invalid, "'" + key + "' of a run cannot be changed",
                  "What can: tags, properties, displayName, description, archived.");
    }
  }
  return changes;
}

Result<http::Response> update_run(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const control::LabelChanges changes, changes_of(body));
  TRY_SET(const RunId id, writable_run(call));
  TRY_SET(const Run run, call.house.control->update(id, changes));
  return answer(shown(call, run));
}

Result<http::Response> end_run(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string status, wire::string_member(body, "status"));
  TRY_SET(const std::string error, wire::string_member(body, "error"));
  TRY_SET(const RunStatus wanted, run_status_from(status));
  TRY_SET(const RunId id, writable_run(call));
  TRY_SET(const Run run, call.house.control->end(id, wanted, error));
  return answer(shown(call, run));
}

Result<http::Response> wait_for_run(const Call& call) {
  TRY_SET(const int64_t version, query_number(call.request, "version", 0));
  TRY_SET(const RunId id, readable_run(call));
  TRY_SET(const auto glance, call.house.watch.glance(id));
  TRY_SET(const auto until, may_wait_until(call));
  // A run that is over has no next version: who waits for one would wait in vain.
  if (glance->version <= version && !glance->final() && until) {
    return http::Response::parked(House::state_key(id), *until);
  }
  TRY_SET(const Run run, call.house.control->run(id));
  return answer(shown(call, run));
}

// ---- follow ----

// ?from=0,0: where the reader stands, per rank.
Result<std::vector<uint64_t>> offsets_of(const http::Request& request, int ranks) {
  std::vector<uint64_t> offsets(static_cast<size_t>(ranks), 0);
  const std::string_view text = request.query_or("from", "");
  if (text.empty()) return offsets;
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() > offsets.size()) {
    return fail(ErrorKind::invalid, "from: the run has " + std::to_string(ranks) + " rank(s)");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    TRY_SET(const int64_t offset, parse_int(parts[i], "from"));
    if (offset < 0) return fail(ErrorKind::invalid, "from: must not be negative");
    offsets[i] = static_cast<uint64_t>(offset);
  }
  return offsets;
}

struct Followed {
  std::string frames;
  bool at_end = true;  // Nothing is left to read.
};

void add_frame(std::string& frames, const wire::FollowHead& head, std::string_view bytes) {
  frames += wire::follow_head(head);
  frames += bytes;
}

Status read_rank(const Call& call, const RunId& id, int rank, size_t max, uint64_t& offset,
                 Followed& followed) {
  TRY_SET(const logs::FramedRead read, call.house.logs.read_framed(id, rank, offset, max));
  size_t at = 0;
  for (const auto& part : read.parts) {
    add_frame(followed.frames,
              {part.stream == logs::Stream::out ? 'o' : 'e', static_cast<uint32_t>(rank),
               static_cast<uint32_t>(part.size)},
              std::string_view(read.bytes).substr(at, part.size));
    at += part.size;
  }
  offset = read.next;
  if (read.next < read.size) followed.at_end = false;
  return {};
}

Json state_frame(const Glance& glance, bool final, const std::vector<uint64_t>& next) {
  return {{"status", std::string(to_string(glance.status))},
          {"reason", glance.reason},
          {"version", glance.version},
          {"final", final},
          {"exitCode", glance.exit_code ? Json(*glance.exit_code) : Json()},
          {"error", glance.error},
          {"next", next},
          {"attempt", glance.attempt}};
}

Result<http::Response> follow_run(const Call& call) {
  TRY_SET(const int64_t version, query_number(call.request, "version", 0));
  TRY_SET(const RunId id, readable_run(call));
  // The state first: when it is final, what is read after it is all there will be.
  TRY_SET(const auto glance, call.house.watch.glance(id));
  TRY_SET(std::vector<uint64_t> offsets, offsets_of(call.request, glance->ranks));
  TRY_SET(const int64_t only, query_number(call.request, "rank", -1, {0, glance->ranks - 1}));
  const size_t max = only >= 0 ? kFollowMax : std::max(kFollowRankMin, kFollowMax / offsets.size());
  Followed followed;
  for (int rank = 0; rank < glance->ranks; ++rank) {
    if (only >= 0 && rank != only) continue;
    TRY(read_rank(call, id, rank, max, offsets[static_cast<size_t>(rank)], followed));
  }
  const bool news = !followed.frames.empty() || glance->version > version || glance->final();
  TRY_SET(const auto until, may_wait_until(call));
  if (!news && until) return http::Response::parked(House::output_key(id), *until);

  const bool final = glance->final() && followed.at_end;
  const std::string state = wire::dump(state_frame(*glance, final, offsets));
  add_frame(followed.frames, {'s', 0, static_cast<uint32_t>(state.size())}, state);
  http::Response response;
  response.headers["content-type"] = "application/octet-stream";
  response.body = std::move(followed.frames);
  return response;
}

using enum http::Method;
constexpr RouteRow kRunsRoutes[] = {
    {post, "/api/v1/runs", Needs::submitter, Attempts::own_workspace, submit,
     "Submits {\"id\", \"spec\"}: 201; the same again: 200; the id with another spec: 409.", "",
     kSubmitBodyMax},
    {get, "/api/v1/runs", Needs::reader, Attempts::own_workspace, list_runs,
     "Lists runs, the newest first.",
     "workspace experiment status target parent children tag archived limit cursor"},
    {get, "/api/v1/runs/{id}", Needs::reader, Attempts::own_workspace, show_run, "Shows a run."},
    {get, "/api/v1/runs/{id}/spec", Needs::reader, Attempts::own_workspace, show_spec,
     "All that was submitted, as POST /runs takes it."},
    {patch, "/api/v1/runs/{id}", Needs::submitter, Attempts::own_workspace, update_run,
     "Changes {\"tags\", \"properties\", \"displayName\", \"description\", \"archived\"}."},
    {post, "/api/v1/runs/{id}/cancel", Needs::submitter, Attempts::own_workspace, cancel_run,
     "Asks a run to stop."},
    {post, "/api/v1/runs/{id}/end", Needs::submitter, Attempts::own_workspace, end_run,
     "Ends an interactive run: {\"status\", \"error\"}."},
    {get, "/api/v1/runs/{id}/wait", Needs::reader, Attempts::own_workspace, wait_for_run,
     "The run once its version is above `version`, or after `wait` seconds.", "version wait"},
    {get, "/api/v1/runs/{id}/follow", Needs::reader, Attempts::own_workspace, follow_run,
     "Console from `from` on in frames, the last of them the run's state.",
     "from version wait rank"},
};

}  // namespace

std::span<const RouteRow> run_routes() { return kRunsRoutes; }

}  // namespace trainyard::api
