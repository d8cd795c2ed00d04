// The members of a workspace.
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kShareUser[] = {
    {"--user", Takes::value, "NAME", "The user."},
};
constexpr Option kShareRole[] = {
    {"--role", Takes::value, "ROLE", "reader, submitter or admin (default: submitter)."},
};

View member_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"user", "role", "addedBy", "addedAt"};
    return plain_table(value, kKeys);
  }};
}

Result<std::string> shared_with(const Context& context) {
  std::vector<std::string> names = context.args().words();
  if (context.args().has("user")) names.push_back(context.args().value("user"));
  if (names.size() != 1) {
    return fail(
        ErrorKind::invalid, names.empty() ? "which user?" : "one user at a time",
        "As in: trainyard " + std::string(context.command().name) + " -w vision --user ann");
  }
  TRY(check_name(names.front(), "user"));
  return names.front();
}

// Roles by the names that Azure has for them, too.
Result<Role> member_role(const std::string& name) {
  if (name == "owner") return Role::admin;
  if (name == "contributor") return Role::submitter;
  return role_from(name);
}

}  // namespace

constinit const std::span<const Option> kWorkspaceShareUser = kShareUser;
constinit const std::span<const Option> kWorkspaceShareOptions = kShareRole;

Result<int> workspace_share_add(Context& context) {
  TRY_SET(const std::string user, shared_with(context));
  TRY_SET(const Role role, member_role(context.args().value("role", "submitter")));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json before, api->workspace(workspace));
  TRY_SET(const Json member, api->set_member(workspace, user, to_string(role)));
  TRY(context.print(member, member_view()));
  if (before.value("access", "") == "everyone") {
    context.say("workspace " + workspace +
                " is for its members now; open it again with: trainyard workspace update -w " +
                workspace + " --access everyone");
  }
  return kExitOk;
}

Result<int> workspace_share_list(Context& context) {
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json members, api->members(workspace));
  TRY(print_list(context, members, member_view()));
  return kExitOk;
}

Result<int> workspace_share_remove(Context& context) {
  TRY_SET(const std::string user, shared_with(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY(api->remove_member(workspace, user));
  context.say(user + " is no longer a member of workspace " + workspace);
  return kExitOk;
}

}  // namespace trainyard::cli
