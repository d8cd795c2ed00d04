#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kWorkspaceCreateRows[] = {
    {"--exist-ok", Takes::nothing, "", "Be content with one that is there."},
    {"--location -l", Takes::value, "PLACE", "Kept and shown; it has no other meaning here."},
    {"--image-build-compute -i", Takes::value, "COMPUTE",
     "Where environments of runs for elsewhere are built; else on the server."},
    {"--access", Takes::value, "WHOM", "everyone or members: whom it lets in (default: everyone)."},
    {"--friendly-name -f", Takes::value, "NAME", "", Since::later},
};
constexpr Option kWorkspaceUpdateRows[] = {
    {"--image-build-compute -i", Takes::value, "COMPUTE",
     "Where environments of runs for elsewhere are built; '': on the server."},
    {"--access", Takes::value, "WHOM", "everyone or members: whom it lets in."},
    {"--retention", Takes::value, "TIME",
     "Delete runs that ended longer ago, as in 90d (default: 0, none)."},
};
constexpr Option kWorkspaceChoiceRows[] = {
    {"--name -n", Takes::value, "NAME", "The workspace, like -w."},
    {"--no-wait", Takes::nothing, "", "Taken from scripts for Azure; it takes no time here."},
};

constexpr int64_t kDay = std::chrono::seconds(std::chrono::hours(24)).count();

// "90d", "36h", "86461s": as --retention takes it.
std::string retention_words(int64_t duration) {
  if (duration == 0) return "none";
  if (duration % kDay == 0) return std::to_string(duration / kDay) + "d";
  if (duration % 3600 == 0) return std::to_string(duration / 3600) + "h";
  return std::to_string(duration) + "s";
}

View workspace_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {
        "name",          "access",         "retention",         "createdBy", "createdAt",
        "resourceGroup", "subscriptionId", "imageBuildCompute", "location"};
    Json shown = value.is_array() ? value : Json::array({value});
    for (Json& workspace : shown) {
      workspace["retention"] = retention_words(workspace.value("retentionSeconds", int64_t{0}));
    }
    return plain_table(shown, kKeys);
  }};
}

Result<seconds> retention_of(const std::string& text) {
  TRY_SET(const seconds retention, parse_duration(text, "--retention"));
  if (retention == seconds(0) || (retention >= kRetentionMin && retention <= kRetentionMax)) {
    return retention;
  }
  return fail(ErrorKind::invalid,
              "--retention: '" + text + "' is " + retention_words(retention.count()) +
                  "; it must be between 1d and 36500d, or 0 to keep all runs",
              "A number without a unit is in seconds: write days as in --retention 90d.");
}

// A word, -n or -w; empty when there is none of them.
Result<std::string> named(const Context& context) {
  const Args& args = context.args();
  std::vector<std::string> names = args.words();
  for (const std::string_view key : {"name", "workspace-name"}) {
    if (args.has(key)) names.push_back(args.value(key));
  }
  if (names.empty()) return std::string();
  if (names.size() > 1) return fail(ErrorKind::invalid, "one workspace at a time");
  TRY(check_name(names.front(), "workspace"));
  return names.front();
}

Result<std::string> must_be_named(const Context& context) {
  TRY_SET(std::string name, named(context));
  if (!name.empty()) return name;
  return fail(ErrorKind::invalid, "which workspace?",
              "Name it: trainyard " + std::string(context.command().name) + " NAME");
}

}  // namespace

constinit const std::span<const Option> kWorkspaceCreateOptions = kWorkspaceCreateRows;
constinit const std::span<const Option> kWorkspaceUpdateOptions = kWorkspaceUpdateRows;
constinit const std::span<const Option> kWorkspaceChoice = kWorkspaceChoiceRows;

Result<int> workspace_create(Context& context) {
  Workspace workspace;
  TRY_SET(workspace.name, must_be_named(context));
  workspace.subscription_id = context.args().value("subscription-id");
  workspace.resource_group = context.args().value("resource-group");
  workspace.location = context.args().value("location");
  const std::string compute = context.args().value("image-build-compute");
  workspace.image_build_compute = compute;
  TRY_SET(workspace.access, access_from(context.args().value("access", "everyone")));
  TRY_SET(client::Api * api, context.api());
  auto created = api->create_workspace(workspace);
  if (!created && created.error().kind == ErrorKind::conflict && context.args().has("exist-ok")) {
    created = compute.empty()
                  ? api->workspace(workspace.name)
                  : api->update_workspace(workspace.name, {{"imageBuildCompute", compute}});
  } else if (created && !compute.empty()) {
    context.say("warning: workspace " + workspace.name + " has no compute " + compute +
                " yet; make it with: trainyard compute create -w " + workspace.name + " -n " +
                compute);
  }
  if (!created) return std::unexpected(created.error());
  TRY(context.print(*created, workspace_view()));
  return kExitOk;
}

Result<int> workspace_update(Context& context) {
  TRY_SET(std::string name, named(context));
  if (name.empty()) {
    TRY_SET(name, context.workspace());
  }
  const Args& args = context.args();
  Json changes = Json::object();
  if (args.has("image-build-compute")) {
    changes["imageBuildCompute"] = args.value("image-build-compute");
  }
  if (args.has("retention")) {
    TRY_SET(const seconds retention, retention_of(args.value("retention")));
    changes["retentionSeconds"] = retention.count();
  }
  if (args.has("access")) {
    TRY_SET(const Access access, access_from(args.value("access")));
    changes["access"] = to_string(access);
  }
  if (changes.empty()) {
    return fail(ErrorKind::invalid, "what is to be changed?",
                "Give --image-build-compute COMPUTE, --retention TIME or --access WHOM.");
  }
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json changed, api->update_workspace(name, changes));
  TRY(context.print(changed, workspace_view()));
  return kExitOk;
}

Result<int> workspace_list(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json workspaces, api->workspaces());
  TRY(print_list(context, workspaces, workspace_view()));
  return kExitOk;
}

Result<int> workspace_show(Context& context) {
  TRY_SET(std::string name, named(context));
  if (name.empty()) {
    TRY_SET(name, context.workspace());
  }
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json workspace, api->workspace(name));
  TRY(context.print(workspace, workspace_view()));
  return kExitOk;
}

Result<int> workspace_delete(Context& context) {
  TRY_SET(const std::string name, must_be_named(context));
  TRY(context.confirm("Delete the workspace " + name + " and all its runs?"));
  TRY_SET(client::Api * api, context.api());
  TRY(api->delete_workspace(name));
  context.say("workspace " + name + " is deleted");
  return kExitOk;
}

}  // namespace trainyard::cli
