#include <algorithm>

#include "api/route.h"
#include "api/targets.h"
#include "store/computes.h"
#include "store/workspaces.h"

namespace trainyard::api {
namespace {

// Less is a mistyping: runs would go on the day they end.

Result<http::Response> list_workspaces(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  TRY_SET(std::vector<Workspace> workspaces, call.house.store.workspaces());
  TRY_SET(const auto closed, closed_workspaces(call.house, call.identity));
  std::erase_if(workspaces, [&](const Workspace& workspace) {
    return std::ranges::any_of(closed, [&](const auto& one) { return one.id == workspace.id; });
  });
  return answer_page(window, workspaces.size(),
                     [&](size_t i) { return wire::workspace_to_json(workspaces[i]); });
}

Status check_build_compute(const std::string& compute) {
  if (compute.empty()) return {};
  if (compute == kLocalQueue || compute == kServerTarget) {
    return fail(ErrorKind::invalid,
                "imageBuildCompute: '" + compute + "' is no compute of the workspace",
                "Where none is named, environments are built on the server.");
  }
  return check_name(compute, "imageBuildCompute");
}

Result<http::Response> update_workspace(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const Workspace workspace, call.house.store.workspace(call.request.param("name")));
  for (const auto& [key, value] : body.items()) {
    if (key == "imageBuildCompute" || key == "retentionSeconds" || key == "access") continue;
    return fail(ErrorKind::invalid, "'" + key + "' of a workspace cannot be changed",
                "What can: imageBuildCompute, retentionSeconds, access.");
  }
  if (body.empty()) return fail(ErrorKind::invalid, "there is nothing to be changed");
  TRY_SET(const std::string compute, wire::string_member(body, "imageBuildCompute"));
  TRY(check_build_compute(compute));
  TRY_SET(const int64_t retention, wire::int_member(body, "retentionSeconds"));
  if (retention != 0 && (retention < kRetentionMin.count() || retention > kRetentionMax.count())) {
    return fail(ErrorKind::invalid, "retentionSeconds: must be 0 or between a day and 100 years");
  }
  TRY_SET(const std::string word,
          wire::string_member(body, "access", std::string(to_string(workspace.access))));
  TRY_SET(const Access access, access_from(word));
  const auto change = [&](db::Transaction& transaction) -> Status {
    if (body.contains("imageBuildCompute")) {
      TRY(store::set_build_compute(transaction, workspace.name, compute));
    }
    if (body.contains("retentionSeconds")) {
      TRY(store::set_retention(transaction, workspace.name, seconds(retention)));
    }
    return store::set_access(transaction, workspace.name, access);
  };
  TRY(call.house.store.write(Durable::yes, change));
  TRY_SET(const Workspace changed, call.house.store.workspace(workspace.name));
  return answer(wire::workspace_to_json(changed));
}

Result<http::Response> create_workspace(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  Workspace workspace;
  TRY_SET(workspace.name, wire::string_member(body, "name"));
  TRY_SET(workspace.subscription_id, wire::string_member(body, "subscriptionId"));
  TRY_SET(workspace.resource_group, wire::string_member(body, "resourceGroup"));
  TRY_SET(workspace.location, wire::string_member(body, "location"));
  TRY_SET(workspace.image_build_compute, wire::string_member(body, "imageBuildCompute"));
  TRY_SET(const std::string access, wire::string_member(body, "access", "everyone"));
  TRY_SET(workspace.access, access_from(access));
  TRY(check_name(workspace.name, "workspace"));
  // Its computes are made when it is there.
  TRY(check_build_compute(workspace.image_build_compute));
  workspace.created_by = call.identity.user;
  TRY_SET(const Workspace made, call.house.store.create_workspace(workspace));
  return answer(wire::workspace_to_json(made), 201);
}

Result<http::Response> show_workspace(const Call& call) {
  TRY_SET(const Workspace workspace, call.house.store.workspace(call.request.param("name")));
  return answer(wire::workspace_to_json(workspace));
}

Result<std::vector<Compute>> computes_of(const Call& call, std::string_view workspace) {
  std::vector<Compute> computes;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(computes, store::list_computes(db, workspace));
    return {};
  };
  TRY(call.house.store.read(look));
  return computes;
}

Result<http::Response> delete_workspace(const Call& call) {
  const std::string_view name = call.request.param("name");
  TRY(call.house.store.workspace(name));
  // Their names are gone with the rows; so they are read before.
  TRY_SET(const std::vector<Compute> computes, computes_of(call, name));
  TRY(call.house.store.delete_workspace(name));
  if (call.house.targets != nullptr) {
    for (const Compute& compute : computes) call.house.targets->close(compute);
  }
  call.house.runs_changed();
  purge_soon(call);
  return no_content();
}

Result<http::Response> list_experiments(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  TRY_SET(const Workspace workspace, call.house.store.workspace(call.request.param("name")));
  TRY_SET(const std::vector<Experiment> experiments, call.house.store.experiments(workspace.name));
  return answer_page(window, experiments.size(),
                     [&](size_t i) { return wire::experiment_to_json(experiments[i]); });
}

// ---- members ----

Result<http::Response> list_members(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  std::vector<Member> members;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(members, store::list_members(db, call.request.param("name")));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, members.size(),
                     [&](size_t i) { return wire::member_to_json(members[i]); });
}

Result<http::Response> set_member(const Call& call) {
  const std::string_view workspace = call.request.param("name");
  TRY(check_workspace(call, workspace, Role::admin));
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string role, wire::string_member(body, "role", "submitter"));
  Member member{.user = std::string(call.request.param("user")),
                .added_by = call.identity.user,
                .added = call.house.clock.wall()};
  TRY_SET(member.role, role_from(role));
  const std::string why = "user '" + member.user + "' is " + std::string(to_string(member.role)) +
                          " in workspace '" + std::string(workspace) + "' now";
  TRY(call.house.control->withdraw({.user = member.user,
                                    .by = call.identity.user,
                                    .why = why,
                                    .change = [&](db::Transaction& transaction) {
                                      return store::set_member(transaction, workspace, member);
                                    }}));
  return answer(wire::member_to_json(member));
}

Result<http::Response> remove_member(const Call& call) {
  const std::string_view workspace = call.request.param("name");
  TRY(check_workspace(call, workspace, Role::admin));
  const std::string user(call.request.param("user"));
  const std::string why =
      "user '" + user + "' is no member of workspace '" + std::string(workspace) + "' any more";
  TRY(call.house.control->withdraw({.user = user,
                                    .by = call.identity.user,
                                    .why = why,
                                    .change = [&](db::Transaction& transaction) {
                                      return store::remove_member(transaction, workspace, user);
                                    }}));
  call.house.execs.stop_all_by(user);
  return no_content();
}

using enum http::Method;
constexpr RouteRow kWorkspacesRoutes[] = {
    {get, "/api/v1/workspaces", Needs::reader, Attempts::own_workspace, list_workspaces,
     "Lists the workspaces.", "limit cursor"},
    {post, "/api/v1/workspaces", Needs::admin, Attempts::refused, create_workspace,
     "Makes a workspace: {\"name\", \"subscriptionId\", \"resourceGroup\", \"access\"}."},
    {get, "/api/v1/workspaces/{name}", Needs::reader, Attempts::own_workspace, show_workspace,
     "Shows a workspace."},
    {patch, "/api/v1/workspaces/{name}", Needs::admin, Attempts::refused, update_workspace,
     "Changes {\"imageBuildCompute\"}: where environments are built, empty: on the server; "
     "{\"retentionSeconds\"}: runs that ended longer ago are deleted, 0: none; and {\"access\"}: "
     "whom it lets in, everyone or members."},
    {del, "/api/v1/workspaces/{name}", Needs::admin, Attempts::refused, delete_workspace,
     "Deletes a workspace at once, and its runs in the background; refused while one is not over."},
    {get, "/api/v1/workspaces/{name}/experiments", Needs::reader, Attempts::own_workspace,
     list_experiments, "Lists the experiments of a workspace.", "limit cursor"},
    {get, "/api/v1/workspaces/{name}/members", Needs::reader, Attempts::refused, list_members,
     "Lists the members of a workspace and their roles in it.", "limit cursor"},
    {put, "/api/v1/workspaces/{name}/members/{user}", Needs::submitter, Attempts::refused,
     set_member,
     "Adds a member with a role, {\"role\"}, or changes it. Closes the workspace to others."},
    {del, "/api/v1/workspaces/{name}/members/{user}", Needs::submitter, Attempts::refused,
     remove_member, "Removes a member."},
};

}  // namespace

std::span<const RouteRow> workspace_routes() { return kWorkspacesRoutes; }

}  // namespace trainyard::api
