#include <algorithm>
#include <span>

#include "api/links.h"
#include "api/outputs.h"
#include "api/policy.h"
#include "api/realise.h"
#include "api/route.h"
#include "base/text.h"
#include "store/deletion.h"
#include "wire/urls.h"

namespace trainyard::api {
namespace {

constexpr size_t kSubmitBodyMax = 4 << 20;
// Of console in an answer to a follower: 500 slow ones of them are 32 MB.
constexpr size_t kFollowMax = 64 * 1024;
constexpr size_t kFilterTagsMax = 20;
// A longer page of a list takes its time, and waits for its turn in the slow lane.
constexpr size_t kQuickLimitMax = 200;
constexpr milliseconds kQuickMax{5};
constexpr seconds kSlowWaitMax{60};
constexpr size_t kFollowRankMin = 4 * 1024;  // So that no rank waits for another to fall silent.

Json shown(const Call& call, const Run& run) {
  const WallTime now = call.house.clock.wall();
  return wire::run_to_json(run, now, log_links(call.house, run, call.identity.user, now));
}

// A script submits in its user's name, but not with what its own run was not given: neither a
// secret that it names, nor one that a registered environment brings along.
Status check_secrets_of_child(const Call& call, const RunSpec& spec,
                              const control::EnvironmentUse& use) {
  if (!call.identity.attempt) return {};
  TRY_SET(const Run parent, call.house.store.run(call.identity.attempt->run));
  TRY_SET(const Environment environment,
          call.house.control->resolve_environment(spec.workspace, spec.environment, use));
  const ImageRegistry& registry = environment.registry;
  std::vector<std::string> wanted = spec.secrets;
  if (!registry.secret.empty()) wanted.push_back(registry.secret);
  const bool same_registry = registry == parent.spec.environment.registry;
  for (const std::string& name : wanted) {
    if (std::ranges::find(parent.spec.secrets, name) != parent.spec.secrets.end()) continue;
    if (same_registry && name == registry.secret) continue;
    return fail(ErrorKind::denied,
                "run " + parent.id.value + " does not name the secret '" + name +
                    "', so no run that it submits may",
                "Submit the parent with --secret " + name + ".");
  }
  return {};
}

Result<http::Response> submit(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string id, wire::string_member(body, "id"));
  TRY(check_name(id, "run id"));
  const auto spec = body.find("spec");
  if (spec == body.end()) return fail(ErrorKind::invalid, "spec: is missing");
  control::Submission submission{.id = RunId{id}, .spec = {}, .user = call.identity.user};
  TRY_SET(submission.role, role_of(call));
  Result<RunSpec> decoded = wire::decode_run_spec(*spec);
  if (!decoded) return std::unexpected(std::move(decoded).error().within("spec"));
  submission.spec = *std::move(decoded);
  TRY(check_spec(submission.spec));
  TRY(check_workspace(call, submission.spec.workspace, Role::submitter));
  TRY(check_may_name(call, submission.spec.workspace, submission.spec.snapshot));
  TRY(check_may_name(call, submission.spec.workspace, submission.spec.environment.recipe.context));
  TRY(settle_target(call, submission.spec));
  const RunSpec& asked = submission.spec;
  submission.arrived = call.request.arrived;
  control::EnvironmentUse use = control::use_of(asked, submission.role);
  use.asked = submission.arrived;
  if (auto wait = wait_for_image(call, asked.workspace, asked.environment, use)) {
    return *std::move(wait);
  }
  TRY(check_secrets_of_child(call, asked, use));
  TRY_SET(const control::Submitted submitted, call.house.control->submit(submission));
  if (submitted.created) make_ahead(call.house, submitted.run);
  return answer(shown(call, submitted.run), submitted.created ? 201 : 200);
}

// ?tag=NAME or NAME=VALUE; ?tags={"NAME": "VALUE", "NAME": null} for several.
Status add_tags_to(store::RunFilter& filter, const http::Request& request) {
  if (const std::string_view tag = request.query_or("tag", ""); !tag.empty()) {
    const size_t equals = tag.find('=');
    store::RunFilter::Tag& added = filter.tags.emplace_back();
    added.name = tag.substr(0, equals);
    if (equals != std::string_view::npos) added.value = tag.substr(equals + 1);
  }
  const std::string_view several = request.query_or("tags", "");
  if (several.empty()) return {};
  TRY_SET(const Json tags, wire::parse(several));
  if (!tags.is_object() || tags.size() > kFilterTagsMax) {
    return fail(ErrorKind::invalid, "tags: must be a JSON object of at most " +
                                        std::to_string(kFilterTagsMax) + " names with values");
  }
  for (const auto& [name, value] : tags.items()) {
    if (!value.is_string() && !value.is_null()) {
      return fail(ErrorKind::invalid, "tags." + name + ": must be a text, or null for any value");
    }
    store::RunFilter::Tag& added = filter.tags.emplace_back();
    added.name = name;
    if (value.is_string()) added.value = value.get<std::string>();
  }
  return {};
}

Status add_labels_to(store::RunFilter& filter, const http::Request& request) {
  TRY(add_tags_to(filter, request));
  TRY_SET(const int64_t children, query_number(request, "children", 0, {0, 1}));
  filter.children = children == 1;
  const std::string_view archived = request.query_or("archived", "no");
  using enum store::RunFilter::Archived;
  if (archived != "no" && archived != "only" && archived != "any") {
    return fail(ErrorKind::invalid, "archived: must be no, only or any");
  }
  filter.archived = archived == "only" ? only : archived == "any" ? any : no;
  const std::string_view deleted = request.query_or("deleted", "no");
  if (deleted != "no" && deleted != "only") {
    return fail(ErrorKind::invalid, "deleted: must be no or only");
  }
  if (deleted == "only") filter.deleted = store::RunFilter::Deleted::only;
  return {};
}

// A deleted run is listed to those who can restore it: its user and admins.
Status restrict_to_restorable(const Call& call, store::RunFilter& filter) {
  const bool admin = filter.workspace.empty()
                         ? call.identity.role == Role::admin
                         : check_workspace(call, filter.workspace, Role::admin).has_value();
  if (admin) return {};
  if (!filter.user.empty() && filter.user != call.identity.user) {
    return fail(ErrorKind::denied, "only an admin lists other people's deleted runs");
  }
  filter.user = call.identity.user;
  return {};
}

Result<store::RunFilter> filter_of(const Call& call) {
  const http::Request& request = call.request;
  store::RunFilter filter{.workspace = std::string(request.query_or("workspace", "")),
                          .experiment = std::string(request.query_or("experiment", "")),
                          .status = std::string(request.query_or("status", "")),
                          .target = std::string(request.query_or("target", "")),
                          .user = std::string(request.query_or("user", "")),
                          .named = std::string(request.query_or("named", ""))};
  TRY(add_labels_to(filter, request));
  if (!filter.workspace.empty()) {
    TRY(check_workspace(call, filter.workspace, Role::reader));
  } else {
    TRY_SET(const auto closed, closed_workspaces(call.house, call.identity));
    for (const store::WorkspaceAccess& workspace : closed) filter.closed.push_back(workspace.id);
  }
  if (filter.deleted == store::RunFilter::Deleted::only) TRY(restrict_to_restorable(call, filter));
  TRY_SET(const Window window, window_of(request));
  filter.limit = static_cast<int>(window.limit);
  filter.before = static_cast<int64_t>(window.first);
  return filter;
}

// The same text for every page of a list.
std::string list_key(const http::Query& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    if (name != "cursor") text += name + "=" + value + "&";
  }
  return text;
}

Result<http::Response> answer_runs(const Call& call, const std::vector<Run>& runs, size_t limit) {
  Json items = Json::array();
  for (const Run& run : std::span(runs).first(std::min(limit, runs.size()))) {
    Json item = wire::run_entry_to_json(run, call.house.clock.wall());
    if (run.deleted) {
      item["deletedAt"] = format_time(*run.deleted);
      item["restorableUntil"] = format_time(*run.deleted + store::kKeepDeleted);
    }
    items.push_back(std::move(item));
  }
  Json next = runs.size() > limit ? Json(std::to_string(runs[limit - 1].number)) : Json();
  return answer({{"items", std::move(items)}, {"next", std::move(next)}});
}

// In the slow lane; parked while that is full.
Result<http::Response> list_slowly(const Call& call, const store::RunFilter& filter, size_t limit) {
  House& house = call.house;
  const std::optional<SlowLane::Place> place = house.slow_lane.enter();
  if (!place) {
    const SteadyTime until = call.request.arrived + kSlowWaitMax;
    if (!house.stopping() && house.clock.steady() < until) {
      return http::Response::parked(std::string(House::kSlowKey), until);
    }
    return fail(ErrorKind::unavailable, "the server is busy with other slow lists",
                "Try again later, or ask for less: a smaller limit, a workspace, an experiment.");
  }
  const microseconds began = thread_cpu_time();
  TRY_SET(const std::vector<Run> runs, house.control->runs(filter, store::ReadKind::slow));
  if (thread_cpu_time() - began < kQuickMax) {
    house.slow_lane.forget(list_key(call.request.query));
  }
  return answer_runs(call, runs, limit);
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
  const std::string request = list_key(call.request.query);
  if (limit > kQuickLimitMax || call.house.slow_lane.remembers(request)) {
    return list_slowly(call, filter, limit);
  }
  const auto runs = call.house.control->runs(filter, store::ReadKind::first_try);
  if (runs) return answer_runs(call, *runs, limit);
  if (runs.error().kind != ErrorKind::cancelled) return std::unexpected(runs.error());
  call.house.slow_lane.remember(request);
  return list_slowly(call, filter, limit);
}

Result<http::Response> show_run(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  TRY(fold_outputs(call.house, id));
  TRY_SET(const Run run, call.house.control->run(id));
  return answer(shown(call, run));
}

Result<http::Response> cancel_run(const Call& call) {
  TRY_SET(const RunId id, writable_run(call));
  TRY_SET(const Run run, call.house.control->cancel(id, call.identity.user));
  stop_making(call.house, run);
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
  TRY(fold_outputs(call.house, id));
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
          {"attempt", glance.attempt},
          {"warned", glance.warned}};
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
     "workspace experiment status target user parent children tag tags archived deleted named "
     "limit "
     "cursor"},
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
