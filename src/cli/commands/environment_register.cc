// Environments of a folder, a file or options, registered under a name.
#include "cli/commands/commands.h"
#include "cli/environment_options.h"
#include "cli/environment_view.h"
#include "cli/exit.h"
#include "cli/submission.h"
#include "client/blobs.h"

namespace trainyard::cli {
namespace {

constexpr Option kRegister[] = {
    {"--directory -d", Takes::value, "DIR",
     "The folder of azureml_environment.json and conda_dependencies.yml."},
    {"--name -n", Takes::value, "NAME", "Its name; else what the file says."},
    {"--description", Takes::value, "TEXT", "A word about it."},
};
constexpr Option kCreate[] = {
    {"--file -f", Takes::value, "FILE", "The environment file, YAML."},
    {"--name -n", Takes::value, "NAME", "Its name; else what the file says."},
    {"--version -v", Takes::value, "V", "Its version; else what the file says, else the next."},
    {"--conda-file -c", Takes::value, "FILE", "Packages to install, as conda reads them."},
    {"--build-context -b", Takes::value, "DIR", "The folder of a Dockerfile."},
    {"--dockerfile-path -d", Takes::value, "FILE", "The Dockerfile in it; else Dockerfile."},
    {"--description", Takes::value, "TEXT", "A word about it."},
};

// The folder of a Dockerfile goes along as a tree.
Status send_build(Context& context, dialects::EnvironmentDraft& draft) {
  if (draft.build.empty()) return {};
  TRY_SET(const snapshot::Captured captured, capture_folder(context, draft.build));
  draft.environment.recipe.context = captured.id.hex();
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const std::string workspace, context.workspace());
  TRY(client::upload_missing(api->http(), draft.build, captured, {}, workspace));
  return {};
}

Result<int> put(Context& context, dialects::EnvironmentDraft draft) {
  const Args& args = context.args();
  if (args.has("name")) draft.environment.name = args.value("name");
  if (draft.environment.name.empty()) {
    return fail(ErrorKind::invalid, "the environment has no name", "Give one with -n NAME.");
  }
  TRY(check_environment_name(draft.environment.name));
  TRY_SET(const std::string workspace, context.workspace());
  TRY(settle_environment(context, workspace, draft));
  TRY(send_build(context, draft));
  Json body = wire::encode(draft.environment);
  body["description"] = args.value("description", draft.description);
  if (args.has("environment")) body["base"] = args.value("environment");
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json made, api->register_environment(workspace, body));
  context.say("environment " + cell_of(made, "name") + ":" + cell_of(made, "version"));
  TRY(context.print(made, environment_view()));
  return kExitOk;
}

Status apply_create_options(const Context& context, dialects::EnvironmentDraft& draft) {
  const Args& args = context.args();
  Environment& environment = draft.environment;
  if (args.has("version")) environment.version = args.value("version");
  dialects::Warnings warnings;
  if (args.has("conda-file")) {
    TRY(dialects::add_conda(args.value("conda-file"), environment, warnings));
  }
  for (const std::string& warning : warnings) context.warn(warning);
  if (!args.has("build-context")) return {};
  Recipe& recipe = environment.recipe;
  if (!recipe.image.empty()) {
    return fail(ErrorKind::invalid, "an image and a build folder: keep one of them");
  }
  draft.build = args.value("build-context");
  recipe.kind = EnvironmentKind::container;
  recipe.dockerfile = args.value("dockerfile-path", dialects::kDockerfile);
  std::error_code ignored;
  if (fs::is_regular_file(draft.build / recipe.dockerfile, ignored)) return {};
  return fail(ErrorKind::not_found,
              "there is no '" + recipe.dockerfile + "' in " + draft.build.string());
}

// The name that is put upon another is not that other's.
Status apply_options(const Context& context, dialects::EnvironmentDraft& draft) {
  const std::string name = std::exchange(draft.environment.name, {});
  TRY(apply_environment_options(context, draft));
  draft.environment.name = name;
  if (context.args().has("environment")) draft.environment.version.clear();
  return {};
}

}  // namespace

constinit const std::span<const Option> kEnvironmentRegisterOptions = kRegister;
constinit const std::span<const Option> kEnvironmentCreateOptions = kCreate;

Result<int> environment_register(Context& context) {
  const Args& args = context.args();
  dialects::EnvironmentDraft draft;
  if (args.has("directory")) {
    dialects::Warnings warnings;
    TRY_SET(draft, dialects::load_environment_folder(args.value("directory"), warnings));
    for (const std::string& warning : warnings) context.warn(warning);
  }
  TRY(apply_options(context, draft));
  const bool said = args.has("directory") || args.has("environment") || args.has("requirements") ||
                    args.has("conda") || args.has("image");
  if (!said) {
    return fail(ErrorKind::invalid, "what is in it?",
                "As in: trainyard environment register -d DIR, or: -n NAME --requirements FILE");
  }
  return put(context, std::move(draft));
}

Result<int> environment_create(Context& context) {
  const Args& args = context.args();
  dialects::EnvironmentDraft draft;
  if (args.has("file")) {
    dialects::Warnings warnings;
    TRY_SET(draft, dialects::load_environment_file(args.value("file"), warnings));
    for (const std::string& warning : warnings) context.warn(warning);
  }
  TRY(apply_options(context, draft));
  TRY(apply_create_options(context, draft));
  if (draft.environment.recipe == Recipe{} && !args.has("environment")) {
    return fail(ErrorKind::invalid, "what is in it?",
                "As in: trainyard environment create -f env.yml");
  }
  return put(context, std::move(draft));
}

}  // namespace trainyard::cli
