// Registered environments: seen, downloaded, put away.
#include "cli/commands/commands.h"
#include "cli/environment_view.h"
#include "cli/exit.h"
#include "client/blobs.h"
#include "dialects/environment_file.h"

namespace trainyard::cli {
namespace {

constexpr Option kEnvironmentNames[] = {
    {"--name -n", Takes::value, "NAME", "The environment: NAME, NAME:3 or NAME@latest."},
    {"--version -v", Takes::value, "V", "Which version; else the latest."},
};
constexpr Option kEnvironmentVersions[] = {
    {"--name -n", Takes::value, "NAME", "The environment: NAME, NAME:3 or NAME@latest."},
    {"--version -v", Takes::value, "V", "Which version (default: all)."},
};
constexpr Option kList[] = {
    {"--name -n", Takes::value, "NAME", "All versions of this one."},
    {"--include-archived", Takes::nothing, "", "Those that were put away too."},
    {"--last", Takes::value, "N", "The newest N; else all."},
};
constexpr Option kScaffold[] = {
    {"--name -n", Takes::value, "NAME", "What to call it."},
    {"--directory -d", Takes::value, "DIR", "Where to write its files."},
};
constexpr Option kDownload[] = {
    {"--directory -d", Takes::value, "DIR", "Where to write its files."},
    {"--overwrite", Takes::nothing, "", "Replace files that are there."},
};

Status is_there_already(const fs::path& path) {
  return fail(ErrorKind::conflict, path.string() + " is there already",
              "Say --overwrite to replace it, or choose another folder.");
}

// What is left of another folder there would be part of this one.
Status clear_download(const fs::path& folder, bool overwrite) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(folder, ignored))) return {};
  return overwrite ? remove_tree(folder) : is_there_already(folder);
}

Status write_files(const std::vector<dialects::TextFile>& files, const fs::path& folder,
                   bool overwrite) {
  std::error_code ignored;
  for (const dialects::TextFile& file : files) {
    const fs::path path = folder / file.name;
    if (!overwrite && fs::exists(fs::symlink_status(path, ignored))) return is_there_already(path);
  }
  TRY(make_dirs(folder));
  for (const dialects::TextFile& file : files) TRY(write_file(folder / file.name, file.text));
  return {};
}

Result<fs::path> chosen_folder(const Context& context) {
  const std::string given = context.args().value("directory");
  if (given.empty()) {
    return fail(ErrorKind::invalid, "which folder?",
                "As in: trainyard " + std::string(context.command().name) + " -n NAME -d DIR");
  }
  return fs::path(given);
}

bool names_latest(const Args& args) {
  const std::string name = args.has("name")       ? args.value("name")
                           : args.words().empty() ? std::string()
                                                  : args.words().front();
  return name.ends_with("@latest") || name.ends_with("/labels/latest") ||
         args.value("version") == kLatest;
}

// For commands that mean all versions where none is named: "latest" is one of them.
Result<EnvironmentName> chosen_versions(Context& context) {
  TRY_SET(EnvironmentName name, chosen_environment(context));
  if (!name.version.empty() || !names_latest(context.args())) return name;
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json newest, api->environment(workspace, name));
  TRY_SET(name.version, wire::string_member(newest, "version"));
  return name;
}

std::string label_of(const EnvironmentName& name) {
  return name.name + (name.version.empty() ? "" : ":" + name.version);
}

Result<int> set_archived(Context& context, bool archived) {
  TRY_SET(const EnvironmentName name, chosen_versions(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY(api->archive_environment(workspace, name, archived));
  context.say("environment " + label_of(name) + (archived ? " is put away" : " is back"));
  return kExitOk;
}

}  // namespace

constinit const std::span<const Option> kEnvironmentChoice = kEnvironmentNames;
constinit const std::span<const Option> kEnvironmentVersionChoice = kEnvironmentVersions;
constinit const std::span<const Option> kEnvironmentListOptions = kList;
constinit const std::span<const Option> kEnvironmentScaffoldOptions = kScaffold;
constinit const std::span<const Option> kEnvironmentDownloadOptions = kDownload;

Result<EnvironmentName> chosen_environment(const Context& context) {
  const Args& args = context.args();
  std::vector<std::string> names = args.words();
  if (args.has("name")) names.push_back(args.value("name"));
  if (names.size() != 1 || names.front().empty()) {
    return fail(ErrorKind::invalid,
                names.empty() ? "which environment?" : "one environment at a time",
                "As in: trainyard " + std::string(context.command().name) +
                    " -n NAME. They are listed by: trainyard environment list");
  }
  TRY_SET(EnvironmentName name, parse_environment_name(names.front()));
  if (args.knows("version") && args.has("version") && args.value("version") != kLatest) {
    name.version = args.value("version");
    TRY(check_name(name.version, "version"));
  }
  return name;
}

Result<int> environment_list(Context& context) {
  const Args& args = context.args();
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json environments,
          api->environments(workspace, args.value("name"), args.has("include-archived")));
  TRY(print_list(context, environments, environment_view()));
  return kExitOk;
}

Result<int> environment_show(Context& context) {
  TRY_SET(const EnvironmentName name, chosen_environment(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json environment, api->environment(workspace, name));
  TRY(context.print(environment, environment_view()));
  return kExitOk;
}

Result<int> environment_archive(Context& context) { return set_archived(context, true); }
Result<int> environment_restore(Context& context) { return set_archived(context, false); }

Result<int> environment_delete(Context& context) {
  TRY_SET(const EnvironmentName name, chosen_versions(context));
  TRY_SET(const std::string workspace, context.workspace());
  const std::string label = label_of(name);
  TRY(context.confirm(name.version.empty() ? "Delete all versions of the environment " + label + "?"
                                           : "Delete version " + name.version +
                                                 " of the environment " + name.name + "?"));
  TRY_SET(client::Api * api, context.api());
  const bool now = context.args().has("now");
  TRY(api->delete_environment(workspace, name, now));
  context.say("environment " + label +
              (now ? " is deleted for good"
                   : " is deleted; for seven days it can be restored with: trainyard environment "
                     "restore -n " +
                         label));
  return kExitOk;
}

Result<int> environment_scaffold(Context& context) {
  TRY_SET(const EnvironmentName name, chosen_environment(context));
  TRY(check_environment_name(name.name));
  TRY_SET(const fs::path folder, chosen_folder(context));
  TRY(write_files(dialects::scaffold_files(name.name), folder, false));
  context.say("environment " + name.name + " is begun in " + folder.string() +
              "; register it with: trainyard environment register -d " + folder.string());
  return kExitOk;
}

Result<int> environment_download(Context& context) {
  TRY_SET(const EnvironmentName name, chosen_environment(context));
  TRY_SET(const fs::path folder, chosen_folder(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json json, api->environment(workspace, name));
  TRY_SET(const Environment environment, wire::decode_environment(json));
  const bool overwrite = context.args().has("overwrite");
  const fs::path built_from = folder / dialects::kContextFolder;
  if (!environment.recipe.context.empty()) TRY(clear_download(built_from, overwrite));
  TRY(write_files(dialects::environment_files(environment), folder, overwrite));
  if (!environment.recipe.context.empty()) {
    TRY_SET(const Digest digest, Digest::from_hex(environment.recipe.context));
    const std::string of = client::environment_url(workspace, {name.name, {}}) +
                           (name.version.empty() ? "" : ":" + name.version);
    TRY_SET(const std::string text, client::fetch_text(api->http(), digest, of));
    TRY_SET(const snapshot::Tree tree, snapshot::decode(text));
    TRY(client::download_tree(api->http(), tree, folder, {}, of, dialects::kContextFolder));
  }
  context.say("environment " + label(environment) + " is in " + folder.string());
  return kExitOk;
}

}  // namespace trainyard::cli
