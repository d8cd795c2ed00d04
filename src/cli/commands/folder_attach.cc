#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "dialects/runconfig.h"

namespace trainyard::cli {
namespace {

constexpr Option kFolderAttachRows[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME",
     "The experiment of its runs; else the folder's name."},
};

// The workspace, made when it is not there: who has a machine of their own has only `default`.
Result<Json> workspace_of(Context& context, const std::string& name) {
  TRY_SET(client::Api * api, context.api());
  auto found = api->workspace(name);
  if (found || found.error().kind != ErrorKind::not_found) return found;
  const Error missing = found.error();
  Workspace workspace{.name = name,
                      .subscription_id = context.args().value("subscription-id"),
                      .resource_group = context.args().value("resource-group")};
  found = api->create_workspace(workspace);
  if (!found && found.error().kind == ErrorKind::denied) {
    return fail(ErrorKind::not_found, missing.message,
                "Who may make one does so by: trainyard workspace create " + name);
  }
  if (found) context.say("workspace " + name + " was not there; it is now");
  return found;
}

// The option, else what stands there, else what the workspace knows.
void set(Json& config, std::string_view key, const std::string& given, const std::string& known) {
  const std::string name(key);
  const auto there = config.find(name);
  if (!given.empty()) {
    config[name] = given;
  } else if (there == config.end() || !there->is_string() || cell(*there).empty()) {
    config[name] = known;
  }
}

Status write_if_absent(const fs::path& file, std::string_view text) {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(file, ignored))) return {};
  return write_file(file, text);
}

}  // namespace

constinit const std::span<const Option> kFolderAttachOptions = kFolderAttachRows;

Result<int> folder_attach(Context& context) {
  const Args& args = context.args();
  TRY_SET(const fs::path folder, context.folder());
  const fs::path file = folder / ".azureml" / "config.json";
  Json config = Json::object();
  std::error_code ignored;
  const fs::path old = folder / "aml_config" / "config.json";
  const bool moved = !fs::exists(file, ignored) && fs::is_regular_file(old, ignored);
  const bool again = moved || fs::is_regular_file(file, ignored);
  Project project;
  if (again) {
    TRY_SET(project, find_project(folder));  // Says what is wrong, and where.
    TRY_SET(const std::string text, read_file(project.file));
    TRY_SET(config, wire::parse(text));
  }
  // A folder above that is attached says nothing about this one.
  std::string name = args.value("workspace-name");
  if (name.empty() && again) name = project.workspace;
  if (name.empty()) name = "default";
  TRY(check_name(name, "workspace"));
  TRY_SET(const Json workspace, workspace_of(context, name));

  set(config, "subscription_id", args.value("subscription-id"),
      cell_of(workspace, "subscriptionId"));
  set(config, "resource_group", args.value("resource-group"), cell_of(workspace, "resourceGroup"));
  set(config, "workspace_name", name, name);
  const std::string own = to_utf8(folder.filename().string());
  const std::string known = project.experiment.empty() ? own : project.experiment;
  set(config, "experiment_name", args.value("experiment-name"), known.empty() ? "default" : known);
  TRY(make_dirs(file.parent_path()));
  // A second one of the same name would make `-c local` ambiguous.
  const auto local = dialects::find_runconfig(folder, "local");
  if (!local && local.error().kind == ErrorKind::not_found) {
    TRY(write_if_absent(file.parent_path() / "local.runconfig", dialects::sample_runconfig()));
  }
  TRY(write_if_absent(file.parent_path() / "conda_dependencies.yml",
                      dialects::sample_conda_dependencies()));
  TRY(write_file(file, render_json(config, false)));
  context.say("attached " + folder.string() + " to workspace " + name);
  TRY(context.print(config, {.table = [](const Json& value) {
                      static constexpr std::string_view kKeys[] = {
                          "workspace_name", "experiment_name", "resource_group", "subscription_id"};
                      return plain_table(value, kKeys);
                    }}));
  return kExitOk;
}

}  // namespace trainyard::cli
