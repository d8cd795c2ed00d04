#include <set>

#include "cli/commands/commands.h"
#include "cli/dry_run.h"
#include "cli/environment_options.h"
#include "cli/submission.h"
#include "dialects/runconfig.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunSubmitScriptRows[] = {
    {"--run-configuration-name -c", Takes::value, "CONFIG",
     "The run configuration: NAME of .azureml/NAME.runconfig, or a file."},
    {"--experiment-name -e --experiment", Takes::value, "NAME",
     "The experiment; else the attached one, else the folder's name."},
    {"--target --ct --compute-target-name", Takes::value, "NAME",
     "Where to run; else what the run configuration says."},
    {"--source-directory", Takes::value, "DIR", "The code to take along; else the project."},
    {"--async --no-wait", Takes::nothing, "", "Print the run's id and do not wait."},
    {"--dry-run", Takes::nothing, "", "Show what would be sent and run; submit nothing."},
    {"--conda-dependencies -d", Takes::value, "FILE",
     "Packages to install, in the place of what the run configuration names."},
};

// As it was typed: that is how a place in a file is shown.
Result<fs::path> folder_option(const Args& args, std::string_view key) {
  const std::string given = args.value(key);
  std::error_code error;
  if (given.empty() || fs::is_directory(given, error)) return fs::path(given);
  return fail(error ? ErrorKind::not_found : ErrorKind::invalid,
              "--" + std::string(key) + " " + given + ": not a folder");
}

// In the source folder or the project; else where the project is attached, further up.
Result<dialects::Runconfig> load(const Context& context, dialects::RunconfigAsk ask) {
  auto loaded = dialects::load_runconfig(ask);
  if (loaded || ask.name.empty() || loaded.error().kind != ErrorKind::not_found) return loaded;
  TRY_SET(const Project project, context.project());
  if (project.file.empty()) return loaded;
  const auto above = dialects::find_runconfig(project.file.parent_path().parent_path(), ask.name);
  if (!above) return loaded;
  ask.name = above->string();
  return dialects::load_runconfig(ask);
}

// What the options say of the environment, upon what the run configuration says.
Status settle_packages(const Context& context, dialects::Runconfig& config) {
  const Args& args = context.args();
  dialects::EnvironmentDraft draft{.environment = std::move(config.spec.environment),
                                   .build = std::move(config.build),
                                   .password = std::move(config.registry_password),
                                   .description = {}};
  if (args.has("conda-dependencies")) {
    const std::string file = args.value("conda-dependencies");
    Environment& environment = draft.environment;
    Recipe& recipe = environment.recipe;
    if (recipe.kind != EnvironmentKind::container) recipe = {};
    recipe.python.clear();
    recipe.requirements.clear();
    recipe.options.clear();
    recipe.channels.clear();
    recipe.conda.clear();
    environment.left_out.clear();
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      return fail(ErrorKind::not_found, "-d " + file + ": no such file");
    }
    dialects::Warnings warnings;
    TRY(dialects::add_conda(file, environment, warnings));
    for (const std::string& warning : warnings) context.warn(warning);
  }
  TRY(apply_environment_options(context, draft));
  config.spec.environment = std::move(draft.environment);
  config.build = std::move(draft.build);
  config.registry_password = std::move(draft.password);
  return {};
}

}  // namespace

constinit const std::span<const Option> kRunSubmitScriptOptions = kRunSubmitScriptRows;

Result<int> run_submit_script(Context& context) {
  const Args& args = context.args();
  dialects::RunconfigAsk ask{.name = args.value("run-configuration-name"),
                             .words = args.rest(),
                             .target = args.value("target")};
  TRY_SET(const fs::path folder, context.folder());
  if (args.has("path")) ask.project = args.value("path");
  TRY_SET(ask.source, folder_option(args, "source-directory"));
  TRY_SET(dialects::Runconfig config, load(context, std::move(ask)));
  std::set<std::string> said;
  for (const std::string& warning : config.warnings) {
    if (said.insert(warning).second) context.warn(warning);
  }
  TRY(settle_packages(context, config));
  const auto named = config.places.find("environment.name");
  config.places.erase("environment");
  if (!args.has("environment") && named != config.places.end()) {
    config.places["environment"] = named->second;
  }
  Submission submission{.spec = std::move(config.spec),
                        .id = new_run_id(),
                        .places = std::move(config.places),
                        .build = std::move(config.build),
                        .registry_password = std::move(config.registry_password)};
  const Environment& environment = submission.spec.environment;
  const bool machines =
      environment.name.empty() && environment.recipe.kind == EnvironmentKind::system;
  if (config.any_python && machines) submission.spec.command.front() = find_python();
  TRY_SET(submission.spec.workspace, context.workspace());
  TRY_SET(submission.spec.experiment, experiment_for(context, folder));
  submission.spec.submit_environment = submit_environment();
  std::error_code error;
  submission.code = fs::canonical(config.source, error);
  if (error) return fail_errno(error.value(), config.source.string());
  if (args.has("dry-run")) return dry_run(context, submission);
  TRY_SET(const SubmitOutcome outcome,
          submit_run(context, std::move(submission),
                     args.has("async") ? Then::print_id : Then::follow));
  return outcome.code;
}

}  // namespace trainyard::cli
