#include "api/realise.h"
#include "api/route.h"
#include "container/arguments.h"
#include "container/image_digest.h"
#include "dialects/environment_file.h"
#include "model/environment_identity.h"
#include "model/environment_record.h"
#include "store/environments.h"
#include "store/workspaces.h"
#include "wire/environments.h"

namespace trainyard::api {
namespace {

constexpr size_t kBodyMax = 4 << 20;
constexpr size_t kDescriptionMax = 64 * 1024;

// {environment}, which may be "name:3", and ?version.
Result<EnvironmentName> name_in(const Call& call) {
  TRY_SET(EnvironmentName name, parse_environment_name(call.request.param("environment")));
  const std::string_view version = call.request.query_or("version", "");
  if (version == kLatest) name.version.clear();
  if (version.empty() || version == kLatest) return name;
  name.version = version;
  TRY(check_name(name.version, "version"));
  return name;
}

// The caller's rights. GPUs are assumed: only a run says whether it has any.
control::EnvironmentUse use_of(const Call& call) {
  return {.role = call.identity.role,
          .own_machine = false,
          .gpus = true,
          .asked = call.request.arrived};
}

// With the hash that a run of it would have; a machine that cannot say leaves it out.
Json shown(const Call& call, const EnvironmentRecord& record, std::string_view workspace) {
  EnvironmentRecord whole = record;
  whole.environment.name.clear();
  const auto resolved =
      call.house.control->resolve_environment(workspace, whole.environment, use_of(call));
  const bool known = resolved && resolved->recipe.image_digest != container::kDigestPending;
  whole.environment = known ? *resolved : record.environment;
  whole.environment.name = record.environment.name;
  return wire::environment_record_to_json(whole);
}

Result<http::Response> list_environments(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  store::EnvironmentFilter filter{.name = std::string(call.request.query_or("name", ""))};
  TRY_SET(const int64_t archived, query_number(call.request, "archived", 0, {0, 1}));
  filter.archived = archived == 1;
  std::vector<EnvironmentRecord> records;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(records, store::list_environments(db, workspace_in(call), filter));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, records.size(),
                     [&](size_t i) { return wire::environment_record_to_json(records[i]); });
}

// The environment of a body, checked as a submission of it would be.
Result<EnvironmentRecord> record_in(const Call& call, const Json& body) {
  EnvironmentRecord record;
  TRY_SET(record.environment, wire::decode_environment(body));
  TRY_SET(record.description, wire::string_member(body, "description"));
  TRY_SET(record.note, wire::string_member(body, "note"));
  if (record.description.size() > kDescriptionMax || record.note.size() > kDescriptionMax) {
    return fail(ErrorKind::invalid, "the description is too long");
  }
  record.environment.hash.clear();
  record.environment.recipe.platform.clear();
  record.environment.recipe.image_digest.clear();
  record.environment.recipe.rebuild.clear();
  record.environment.lock.clear();
  record.environment.image_folders.clear();
  record.environment.host_paths.clear();
  record.created_by = call.identity.user;
  record.created = call.house.clock.wall();
  return record;
}

// A base that is named becomes part of the recipe: a version stays what it was.
Status settle(const Call& call, EnvironmentRecord& record, const Json& body) {
  TRY_SET(const std::string base, wire::string_member(body, "base"));
  Environment asked = record.environment;
  asked.name.clear();
  asked.version.clear();
  if (!base.empty()) {
    TRY_SET(const EnvironmentName name, parse_environment_name(base));
    asked.name = name.name;
    asked.version = name.version;
  }
  TRY_SET(Environment resolved,
          call.house.control->resolve_environment(workspace_in(call), asked, use_of(call)));
  TRY(check_may_name(call, workspace_in(call), record.environment.recipe.context));
  if (!resolved.recipe.context.empty()) {
    TRY(call.house.trees.check_whole(resolved.recipe.context));
  }
  resolved.name = record.environment.name;
  resolved.version = record.environment.version;
  resolved.recipe.image_digest.clear();
  resolved.recipe.credential.clear();
  resolved.recipe.rebuild.clear();
  resolved.limited = false;
  resolved.image_folders.clear();
  resolved.host_paths.clear();
  record.environment = std::move(resolved);
  return {};
}

Result<http::Response> register_environment(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(EnvironmentRecord record, record_in(call, body));
  TRY(check_environment_name(record.environment.name));
  record.note.clear();
  Environment asked = record.environment;
  asked.name.clear();
  if (auto wait = wait_for_image(call, workspace_in(call), asked, use_of(call))) {
    return *std::move(wait);
  }
  TRY(settle(call, record, body));
  store::EnvironmentMade made;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(made, store::register_environment(transaction, workspace_in(call), record));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  return answer(shown(call, made.record, workspace_in(call)), made.made ? 201 : 200);
}

Result<http::Response> show_environment(const Call& call) {
  TRY_SET(const EnvironmentName name, name_in(call));
  EnvironmentRecord record;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(record, store::resolve_environment(db, workspace_in(call), name));
    return {};
  };
  TRY(call.house.store.read(look));
  Environment asked = record.environment;
  asked.name.clear();
  if (auto wait = wait_for_image(call, workspace_in(call), asked, use_of(call))) {
    return *std::move(wait);
  }
  return answer(shown(call, record, workspace_in(call)));
}

Result<http::Response> environment_state(const Call& call) {
  TRY_SET(const EnvironmentName name, name_in(call));
  Environment asked;
  asked.name = name.name;
  asked.version = name.version;
  if (auto wait = wait_for_image(call, workspace_in(call), asked, use_of(call))) {
    return *std::move(wait);
  }
  TRY_SET(Environment environment,
          call.house.control->resolve_environment(workspace_in(call), asked, use_of(call)));
  const std::string_view rebuild = call.request.query_or("rebuild", "");
  if (rebuild.empty() || environment.hash.empty()) {
    return show_stand(call, environment, std::string(workspace_in(call)));
  }
  TRY(check_name(rebuild, "rebuild"));
  environment.recipe.rebuild.clear();
  const std::string replaces = environment_hash(environment);
  environment.recipe.rebuild = rebuild;
  environment.hash = environment_hash(environment);
  return show_stand(call, environment, std::string(workspace_in(call)), replaces);
}

Result<http::Response> change_environment(const Call& call) {
  TRY_SET(const EnvironmentName name, name_in(call));
  TRY_SET(const Json body, body_object(call.request));
  for (const auto& [key, value] : body.items()) {
    if (key == "archived") continue;
    return fail(ErrorKind::invalid, "'" + key + "' of an environment cannot be changed",
                "A version stays as it is, but for archived. Register it again: the next version.");
  }
  TRY_SET(const bool archived, wire::bool_member(body, "archived"));
  const auto change = [&](db::Transaction& transaction) -> Status {
    return store::archive_environment(transaction, workspace_in(call), name, archived);
  };
  TRY(call.house.store.write(Durable::yes, change));
  return no_content();
}

Result<http::Response> delete_environment(const Call& call) {
  TRY_SET(const EnvironmentName name, name_in(call));
  TRY_SET(const WallTime when, deletion_time(call));
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const std::string_view owner, owner_in(call, transaction.db(), workspace_in(call)));
    return store::delete_environment(transaction, workspace_in(call), name, when, owner);
  };
  TRY(call.house.store.write(Durable::yes, change));
  purge_soon(call);
  return no_content();
}

// ---- files ----

Result<dialects::SentFiles> files_in(const Json& body) {
  dialects::SentFiles sent;
  TRY_SET(sent.folder, wire::string_member(body, "folder"));
  for (const auto& [path, text] : wire::member(body, "files").items()) {
    if (!text.is_string()) return fail(ErrorKind::invalid, "files." + path + ": must be a text");
    sent.texts[fs::path(path).lexically_normal()] = text.get<std::string>();
  }
  return sent;
}

// For a client that has no reader of these files of its own.
Result<http::Response> read_files(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(dialects::SentFiles sent, files_in(body));
  Environment environment;
  if (const Json& given = wire::member(body, "environment"); given.is_object()) {
    TRY_SET(environment, wire::decode_environment(given));
  }
  TRY_SET(const std::string conda, wire::string_member(body, "conda"));
  TRY_SET(const std::string requirements, wire::string_member(body, "requirements"));
  dialects::Warnings warnings;
  if (!conda.empty()) TRY(dialects::add_sent_conda(sent, conda, environment, warnings));
  if (!requirements.empty()) {
    TRY(dialects::add_sent_requirements(sent, requirements, environment));
  }
  if (!sent.missing.empty()) return answer({{"missing", sent.missing}});
  TRY_SET(environment.arguments, container::argument_words(environment.arguments));
  return answer({{"environment", wire::encode(environment)}, {"warnings", warnings}});
}

// ---- curated ----

Result<http::Response> list_curated(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  std::vector<EnvironmentRecord> records;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(records, store::list_curated(db));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, records.size(),
                     [&](size_t i) { return wire::environment_record_to_json(records[i]); });
}

Result<http::Response> set_curated(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(EnvironmentRecord record, record_in(call, body));
  record.environment.name = call.request.param("environment");
  if (!record.environment.registry.secret.empty()) {
    return fail(ErrorKind::invalid, "a secret is of one workspace, a curated environment of all",
                "Register it in the workspace instead.");
  }
  const auto change = [&](db::Transaction& transaction) -> Status {
    return store::set_curated(transaction, record);
  };
  TRY(call.house.store.write(Durable::yes, change));
  return answer(wire::environment_record_to_json(record));
}

Result<http::Response> delete_curated(const Call& call) {
  const auto change = [&](db::Transaction& transaction) -> Status {
    return store::delete_curated(transaction, call.request.param("environment"));
  };
  TRY(call.house.store.write(Durable::yes, change));
  return no_content();
}

using enum http::Method;
constexpr RouteRow kEnvironmentsRoutes[] = {
    {get, "/api/v1/workspaces/{workspace}/environments", Needs::reader, Attempts::allowed,
     list_environments,
     "Lists the registered environments: of each the latest version, or all versions of one.",
     "name archived limit cursor"},
    {post, "/api/v1/workspaces/{workspace}/environments", Needs::submitter, Attempts::refused,
     register_environment,
     "Registers an environment. What does the same as a version is that version, 200.", "",
     kBodyMax},
    {get, "/api/v1/workspaces/{workspace}/environments/{environment}", Needs::reader,
     Attempts::allowed, show_environment,
     "Shows what a name stands for: a registered environment, else a curated one.", "version"},
    {get, "/api/v1/workspaces/{workspace}/environments/{environment}/state", Needs::submitter,
     Attempts::refused, environment_state,
     "How far an environment is: state, progress, log. Asking has it made; with an id of the "
     "caller's as `rebuild` once more, though it is there.",
     "version need begin log wait rebuild"},
    {patch, "/api/v1/workspaces/{workspace}/environments/{environment}", Needs::submitter,
     Attempts::refused, change_environment,
     "Archives all versions or one of an environment, or brings them back.", "version"},
    {del, "/api/v1/workspaces/{workspace}/environments/{environment}", Needs::submitter,
     Attempts::refused, delete_environment,
     "Deletes all versions or one of an environment; for a week they can be brought back.",
     "version now"},
    {post, "/api/v1/environments/read", Needs::reader, Attempts::allowed, read_files,
     "Reads requirements and conda files into an environment. What is `missing` is to be sent too.",
     "", kBodyMax},
    {get, "/api/v1/curated-environments", Needs::reader, Attempts::allowed, list_curated,
     "Lists the curated environments.", "limit cursor"},
    {put, "/api/v1/curated-environments/{environment}", Needs::admin, Attempts::refused,
     set_curated, "Says what a curated name, or all that a pattern fits, stands for."},
    {del, "/api/v1/curated-environments/{environment}", Needs::admin, Attempts::refused,
     delete_curated, "Deletes a curated name."},
};

}  // namespace

std::span<const RouteRow> environment_routes() { return kEnvironmentsRoutes; }

}  // namespace trainyard::api
