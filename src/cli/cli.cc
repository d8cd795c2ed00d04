#include "cli/cli.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/compute_options.h"
#include "cli/console.h"
#include "cli/environment_options.h"
#include "cli/exit.h"
#include "cli/interrupt.h"
#include "cli/manual.h"
#include "cli/suggest.h"
#include "query/query.h"

namespace trainyard::cli {
namespace {

constexpr Option kCommon[] = {
    {"--output -o", Takes::value, "FORMAT",
     "json, jsonc, table, tsv, yaml, yamlc or none; else $TRAINYARD_OUTPUT, else what trainyard "
     "configure has set, else table on a terminal and json otherwise."},
    {"--query", Takes::value, "JMESPATH", "Print only what this finds in the output."},
    {"--only-show-errors", Takes::nothing, "", "No words of our own but errors."},
    {"--verbose -v", Takes::nothing, "", "Say more."},
    {"--debug", Takes::nothing, "", "Show every call to the server."},
    {"--yes -y", Takes::nothing, "", "Do not ask."},
    {"--help -h", Takes::nothing, "", "Show this."},
    {"--home", Takes::value, "DIR", "Where Trainyard keeps everything; else $TRAINYARD_HOME."},
    {"--server", Takes::value, "URL",
     "A server elsewhere; else $TRAINYARD_SERVER, else that of trainyard login."},
    {"--workspace-name -w --workspace", Takes::value, "NAME",
     "The workspace; else what the folder is attached to, else default."},
    {"--resource-group -g", Takes::value, "NAME", "Kept with a workspace; never needed."},
    {"--subscription-id --subscription", Takes::value, "ID",
     "Kept with a workspace; never needed."},
    {"--path", Takes::value, "DIR", "The project's folder; else the current one."},
    {"--output-metadata-file -t", Takes::value, "FILE",
     "Write what is printed there too, as JSON."},
};

const std::span<const Option> kNone;
constexpr int kFilesMax = 100'000;  // Of one command line.

const Command kCommands[] = {
    {"submit", "Run a command with the current folder as its code", "[OPTION]… -- CMD [ARG]…",
     kSubmitOptions, kEnvironmentOptions, 0, Rest::apart, submit},
    {"run submit-script", "Run a script as a run configuration says",
     "[-c CONFIG] [OPTION]… [SCRIPT ARG…]", kRunSubmitScriptOptions, kEnvironmentOptions, 0,
     Rest::after_word, run_submit_script},
    {"run list", "List runs, newest first", "[OPTION]…", kRunListOptions, kNone, 0, Rest::words,
     run_list},
    {"run show", "Show a run: state, attempts, timeline, code", "RUN", kRunShowOptions, kRunChoice,
     1, Rest::words, run_show},
    {"run files", "List a run's files", "RUN", kNone, kRunChoice, 1, Rest::words, run_files},
    {"run cancel", "Stop runs", "RUN… | --all", kRunCancelOptions, kRunChoice, kFilesMax,
     Rest::words, run_cancel},
    {"run delete", "Delete runs that are over", "RUN… [--now] [--all]", kRunDeleteOptions,
     kRunChoice, kFilesMax, Rest::words, run_delete},
    {"run restore", "Restore deleted runs", "RUN…", kNone, kRunChoice, kFilesMax, Rest::words,
     run_restore},
    {"run wait", "Wait for the end of runs and exit as they did", "RUN… [--all]", kRunWaitOptions,
     kRunChoice, kFilesMax, Rest::words, run_wait},
    {"run logs", "Show what runs printed", "RUN… [-f]", kRunLogsOptions, kRunChoice, kFilesMax,
     Rest::words, run_logs},
    {"run monitor-logs", "Follow what runs print", "RUN…", kRunMonitorLogsOptions, kRunChoice,
     kFilesMax, Rest::words, run_monitor_logs},
    {"run download-logs", "Fetch a run's logs", "RUN -d DIR", kRunDownloadLogsOptions, kRunChoice,
     1, Rest::words, run_download_logs},
    {"run download", "Fetch a run's outputs, or its code", "RUN -d DIR [--snapshot]",
     kRunDownloadOptions, kRunChoice, 1, Rest::words, run_download},
    {"run cp", "Copy a file or folder of a run", "RUN:PATH DEST", kNone, kNone, 2, Rest::words,
     run_cp},
    {"run rerun", "Run a run's command once more, with other values or code", "RUN [--set K=V]…",
     kRunRerunOptions, kRunChoice, 1, Rest::words, run_rerun},
    {"run diff", "Say in what two runs differ", "RUN RUN", kRunDiffOptions, kNone, 2, Rest::words,
     run_diff},
    {"run metrics", "Show what a run's script told", "RUN [--metric NAME]", kRunMetricsOptions,
     kRunChoice, 1, Rest::words, run_metrics},
    {"run update", "Change a run's tags", "RUN --add-tag K=V", kRunUpdateOptions, kRunChoice, 1,
     Rest::words, run_update},
    {"logs", "Follow what runs print", "RUN…", kLogsOfRunsOptions, kRunChoice, kFilesMax,
     Rest::words, run_monitor_logs},
    {"ps", "List runs, newest first", "[OPTION]…", kRunListOptions, kNone, 0, Rest::words,
     run_list},
    {"job create", "Run what a job file describes", "-f FILE [--stream]", kJobCreateOptions, kNone,
     0, Rest::words, job_create},
    {"job show", "Show a job", "NAME", kJobShowOptions, kJobChoice, 1, Rest::words, job_show},
    {"job list", "List jobs, newest first", "[OPTION]…", kJobListOptions, kNone, 0, Rest::words,
     job_list},
    {"job stream", "Follow what a job prints", "NAME", kNone, kJobChoice, 1, Rest::words,
     job_stream},
    {"job cancel", "Stop a job", "NAME", kNone, kJobChoice, 1, Rest::words, job_cancel},
    {"job download", "Fetch a job's outputs", "NAME [-p DIR]", kJobDownloadOptions, kJobChoice, 1,
     Rest::words, job_download},
    {"job validate", "Check job files without submitting", "[-f] FILE…", kJobValidateOptions, kNone,
     kFilesMax, Rest::words, job_validate},
    {"job update", "Change a job's tags, name or description", "NAME --set K=V", kJobUpdateOptions,
     kJobChoice, 1, Rest::words, job_update},
    {"job archive", "Put a job away", "NAME", kNone, kJobChoice, 1, Rest::words, job_archive},
    {"job restore", "Bring a job back that was put away", "NAME", kNone, kJobChoice, 1, Rest::words,
     job_restore},
    {"folder attach", "Attach a folder to a workspace", "[-w NAME]", kFolderAttachOptions, kNone, 0,
     Rest::words, folder_attach},
    {"compute create", "Make a cluster a target", "NAME [--engine slurm] [OPTION]…",
     kComputeCreateOptions, kComputeSettings, 1, Rest::words, compute_create},
    {"compute update", "Change a compute's settings", "NAME [OPTION]…", kComputeUpdateOptions,
     kComputeSettings, 1, Rest::words, compute_update},
    {"compute list", "List the targets, with what waits there", "[--last N]", kListOptions, kNone,
     0, Rest::words, compute_list},
    {"compute show", "Show a target", "NAME", kNone, kComputeChoice, 1, Rest::words, compute_show},
    {"compute list-nodes", "List a target's nodes, their states and runs", "NAME", kNone,
     kComputeChoice, 1, Rest::words, compute_list_nodes},
    {"compute delete", "Delete a compute", "NAME", kNone, kComputeChoice, 1, Rest::words,
     compute_delete},
    {"compute pause", "Place nothing new on a compute", "NAME", kNone, kComputeChoice, 1,
     Rest::words, compute_pause},
    {"compute resume", "Place runs on a compute again", "NAME", kNone, kComputeChoice, 1,
     Rest::words, compute_resume},
    {"compute list-sizes", "List the sizes of machines and their prices", "",
     kComputeListSizesOptions, kNone, 0, Rest::words, compute_list_sizes},
    {"compute size set", "Say what a size has and costs", "VMSIZE [OPTION]…",
     kComputeSizeSetOptions, kComputeSizeChoice, 1, Rest::words, compute_size_set},
    {"compute size delete", "Delete a size", "VMSIZE", kNone, kComputeSizeChoice, 1, Rest::words,
     compute_size_delete},
    {"computetarget create amlcompute", "Make a cluster a target",
     "-n NAME -s VMSIZE --max-nodes N", kComputetargetCreateOptions, kComputeSettings, 0,
     Rest::words, computetarget_create_amlcompute},
    {"computetarget update amlcompute", "Change a compute target's settings", "-n NAME [OPTION]…",
     kComputeUpdateOptions, kComputeSettings, 1, Rest::words, compute_update},
    {"computetarget list", "List the compute targets", "[--last N]", kListOptions, kNone, 0,
     Rest::words, compute_list},
    {"computetarget show", "Show a compute target", "-n NAME", kNone, kComputeChoice, 1,
     Rest::words, compute_show},
    {"computetarget list-nodes", "List a compute target's nodes", "-n NAME", kNone, kComputeChoice,
     1, Rest::words, compute_list_nodes},
    {"computetarget delete", "Delete a compute target", "-n NAME", kNone, kComputeChoice, 1,
     Rest::words, computetarget_delete},
    {"environment scaffold", "Begin an environment's files", "-n NAME -d DIR",
     kEnvironmentScaffoldOptions, kNone, 1, Rest::words, environment_scaffold},
    {"environment register", "Register an environment under a name", "(-d DIR | -n NAME [OPTION]…)",
     kEnvironmentRegisterOptions, kEnvironmentOptions, 0, Rest::words, environment_register},
    {"environment create", "Register what an environment file describes", "-f FILE",
     kEnvironmentCreateOptions, kEnvironmentOptions, 0, Rest::words, environment_create},
    {"environment list", "List the registered environments", "[-n NAME]", kEnvironmentListOptions,
     kNone, 0, Rest::words, environment_list},
    {"environment show", "Show what a name stands for", "NAME", kNone, kEnvironmentChoice, 1,
     Rest::words, environment_show},
    {"environment download", "Write an environment's files", "NAME -d DIR",
     kEnvironmentDownloadOptions, kEnvironmentChoice, 1, Rest::words, environment_download},
    {"environment build", "Build an environment now", "NAME [--rebuild]", kEnvironmentBuildOptions,
     kEnvironmentChoice, 1, Rest::words, environment_build},
    {"environment archive", "Put an environment away", "NAME", kNone, kEnvironmentVersionChoice, 1,
     Rest::words, environment_archive},
    {"environment restore", "Bring back an archived or deleted environment", "NAME", kNone,
     kEnvironmentVersionChoice, 1, Rest::words, environment_restore},
    {"environment delete", "Delete an environment", "-n NAME [--version V] [--now]", kDeleteOptions,
     kEnvironmentVersionChoice, 1, Rest::words, environment_delete},
    {"environment curated list", "List the curated environments", "", kNone, kNone, 0, Rest::words,
     environment_curated_list},
    {"environment curated set", "Say what a curated name stands for", "NAME [OPTION]…",
     kEnvironmentCuratedSetOptions, kEnvironmentOptions, 1, Rest::words, environment_curated_set},
    {"environment curated delete", "Delete a curated name", "NAME", kNone,
     kEnvironmentCuratedChoice, 1, Rest::words, environment_curated_delete},
    {"secret set", "Keep a value that nobody is to read", "SECRET", kSecretSetOptions, kNone, 2,
     Rest::words, secret_set},
    {"secret list", "List the names of secrets", "[--last N]", kListOptions, kNone, 0, Rest::words,
     secret_list},
    {"secret delete", "Delete a secret", "SECRET", kNone, kSecretChoice, 1, Rest::words,
     secret_delete},
    {"experiment list", "List experiments", "[--last N]", kListOptions, kNone, 0, Rest::words,
     experiment_list},
    {"experiment delete", "Delete an experiment and its runs", "NAME [--now]", kDeleteOptions,
     kExperimentChoice, 1, Rest::words, experiment_delete},
    {"experiment restore", "Restore a deleted experiment and its runs", "NAME", kNone,
     kExperimentChoice, 1, Rest::words, experiment_restore},
    {"workspace create", "Make a workspace", "NAME", kWorkspaceCreateOptions, kWorkspaceChoice, 1,
     Rest::words, workspace_create},
    {"workspace list", "List workspaces", "[--last N]", kListOptions, kNone, 0, Rest::words,
     workspace_list},
    {"workspace show", "Show a workspace", "[NAME]", kNone, kWorkspaceChoice, 1, Rest::words,
     workspace_show},
    {"workspace update", "Change a workspace", "[NAME]", kWorkspaceUpdateOptions, kWorkspaceChoice,
     1, Rest::words, workspace_update},
    {"workspace delete", "Delete a workspace and its runs", "NAME", kNone, kWorkspaceChoice, 1,
     Rest::words, workspace_delete},
    {"workspace share add", "Add a member to a workspace", "-w NAME --user USER [--role ROLE]",
     kWorkspaceShareOptions, kWorkspaceShareUser, 1, Rest::words, workspace_share_add},
    {"workspace share list", "List the members of a workspace", "-w NAME", kListOptions, kNone, 0,
     Rest::words, workspace_share_list},
    {"workspace share remove", "Remove a member from a workspace", "-w NAME --user USER", kNone,
     kWorkspaceShareUser, 1, Rest::words, workspace_share_remove},
    {"server run", "Run a server in the foreground", "[--listen HOST:PORT]", kServerRunOptions,
     kNone, 0, Rest::words, server_run},
    {"server start", "Start this home's server in the background", "", kServerStartOptions, kNone,
     0, Rest::words, server_start},
    {"server stop", "Stop this home's server; runs go on", "", kNone, kNone, 0, Rest::words,
     server_stop},
    {"server status", "Say whether a server runs here, and where", "", kServerStatusOptions, kNone,
     0, Rest::words, server_status},
    {"server backup", "Copy everything the server keeps", "DIR [--without-key]",
     kServerBackupOptions, kNone, 1, Rest::words, server_backup},
    {"server restore", "Make a home from a backup", "DIR [--key-file FILE]", kServerRestoreOptions,
     kNone, 1, Rest::words, server_restore},
    {"server check", "Check that everything kept is whole", "[--content]", kServerCheckOptions,
     kNone, 0, Rest::words, server_check},
    {"server gc", "Remove what nothing refers to", "[--dry-run]", kServerGcOptions, kNone, 0,
     Rest::words, server_gc},
    {"server policy show", "Show what each role may ask of machines", "", kNone, kNone, 0,
     Rest::words, server_policy_show},
    {"server policy set", "Set what submitters may ask of machines", "OPTION…",
     kServerPolicySetOptions, kNone, 0, Rest::words, server_policy_set},
    {"user create", "Make a user", "NAME [--role ROLE]", kUserCreateOptions, kUserChoice, 1,
     Rest::words, user_create},
    {"user list", "List users", "[--last N]", kListOptions, kNone, 0, Rest::words, user_list},
    {"user update", "Change a user's role", "NAME --role ROLE", kUserUpdateOptions, kUserChoice, 1,
     Rest::words, user_update},
    {"user delete", "Delete a user, revoke their tokens and cancel their runs", "NAME", kNone,
     kUserChoice, 1, Rest::words, user_delete},
    {"token create", "Make a token, shown once", "[--user NAME]", kTokenCreateOptions, kNone, 0,
     Rest::words, token_create},
    {"token list", "List tokens", "[--last N]", kListOptions, kNone, 0, Rest::words, token_list},
    {"token revoke", "Make a token worthless", "ID", kNone, kTokenChoice, 1, Rest::words,
     token_revoke},
    {"node token", "Make a one-time token for a machine to join with", "[--name NAME]",
     kNodeTokenOptions, kNone, 0, Rest::words, node_token},
    {"node join", "Make this machine a target of a server", "--server URL [--name NAME] [--boot]",
     kNodeJoinOptions, kNone, 0, Rest::words, node_join},
    {"node run", "Work for the server this machine has joined, in the foreground", "[--server URL]",
     kNodeRunOptions, kNone, 0, Rest::words, node_run},
    {"node own", "Make this machine the local of a server elsewhere", "", kNone, kNone, 0,
     Rest::words, node_own, true},
    {"node list", "List the machines that have joined", "[--last N]", kListOptions, kNone, 0,
     Rest::words, node_list},
    {"node show", "Show a machine that has joined", "NAME", kNone, kNodeChoice, 1, Rest::words,
     node_show},
    {"node leave", "Let this machine leave its server", "[--server URL] [--force]", kNodeForce,
     kNone, 0, Rest::words, node_leave},
    {"node remove", "Remove a machine that has joined", "NAME [--force]", kNodeForce, kNodeChoice,
     1, Rest::words, node_remove},
    {"node exec", "Run a command on the nodes of a run or of a target",
     "(-r RUN | -n TARGET) [--node N|NAME… | --all] -- CMD [ARG]…", kNodeExecOptions, kNone, 0,
     Rest::apart, node_exec},
    {"login", "Save a server and its token, and use it", "URL | --list", kLoginOptions, kNone, 1,
     Rest::words, login},
    {"logout", "Forget a saved server and its token", "[URL]", kNone, kNone, 1, Rest::words,
     logout},
    {"configure", "Set defaults for all commands, or show them", "[--defaults K=V…]",
     kConfigureOptions, kNone, 0, Rest::words, configure},
    {"doctor", "Check this machine", "", kNone, kNone, 0, Rest::words, doctor},
    {"version", "Show the version and the commit it was built from", "", kNone, kNone, 0,
     Rest::words, version},
    {"completion", "Print a shell's completion script", "bash|zsh|fish", kNone, kNone, 1,
     Rest::words, completion},
    {"__complete", "Say what a word can become", "-- WORD…", kNone, kNone, 0, Rest::apart,
     complete_words, true},
    {"supervise", "Carry one attempt of a run", "--folder DIR", kSuperviseOptions, kNone, 0,
     Rest::words, supervise, true},
};

// Known words whose time has not come: refused by name, so that nobody looks for a mistyping.
constexpr std::string_view kLater[] = {
    "run submit-hyperdrive",
    "run submit-pipeline",
    "run evict",
    "run monitor-tensorboard",
    "workspace list-keys",
    "workspace sync-keys",
    "workspace diagnose",
    "workspace update-dependencies",
    "experiment create",
    "experiment show",
    "studio",
    "compute list-usage",
    "compute start",
    "compute stop",
    "compute restart",
    "compute attach",
    "compute detach",
    "compute connect-ssh",
    "computetarget attach",
    "computetarget detach",
    "computetarget get-credentials",
    "computetarget computeinstance",
    "computetarget amlcompute",
    "computetarget create aks",
    "computetarget create computeinstance",
    "computetarget create datafactory",
    "computetarget update aks",
    "job connect-ssh",
    "job show-services",
    "data",
    "dataset",
    "datastore",
    "model",
    "pipeline",
    "service",
    "endpoint",
    "component",
    "config",
    "schedule",
    "registry",
    "batchai",
};

bool is_group(std::string_view word) {
  const auto begins = [&](std::string_view name) {
    return name.starts_with(word) && name.size() > word.size() && name[word.size()] == ' ';
  };
  return std::any_of(std::begin(kCommands), std::end(kCommands),
                     [&](const Command& command) { return begins(command.name); });
}

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

Error unknown_command(const std::vector<std::string>& words) {
  const std::string name = join(words, " ");
  for (const std::string_view later : kLater) {
    if (later == name || later == words.front()) {
      return {ErrorKind::invalid, "'" + std::string(later) + "' comes with a later version",
              "What is there already: trainyard --help"};
    }
  }
  const std::string near = command_meant_by(words, kCommands);
  return {ErrorKind::invalid, "unknown command '" + name + "'",
          (near.empty() ? "" : "Did you mean 'trainyard " + near + "'?\n") +
              std::string("Commands are listed by: trainyard --help")};
}

int say_error(const Error& error) {
  if (error.kind == ErrorKind::cancelled && error.message == kOutputClosed) return kExitPipe;
  constexpr std::string_view kErrorHead = "error:";
  const std::string text = paint_error(kErrorHead, look_at_screen().error_colour) +
                           format_error(error).substr(kErrorHead.size());
  static_cast<void>(write_output(STDERR_FILENO, text).has_value());
  if (error.kind == ErrorKind::internal) {
    static_cast<void>(
        write_output(STDERR_FILENO, "       This is a bug in Trainyard.\n").has_value());
  }
  return exit_code(error.kind);
}

int show(const std::string& text) {
  const Status written = write_output(STDOUT_FILENO, text);
  return written ? kExitOk : say_error(written.error());
}

bool asks_for(std::span<const std::string> words, std::string_view name, std::string_view letter) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::any_of(words.begin(), end,
                     [&](const std::string& word) { return word == name || word == letter; });
}

// A script's own --help is the script's.
bool asks_for_help(const Command* command, std::span<const std::string> words) {
  if (command != nullptr && command->rest == Rest::after_word) {
    const auto args = Args::parse(
        {{command->options, command->shared, kCommon}, command->words_max, command->rest}, words);
    if (args) return args->has("help");
  }
  return asks_for(words, "--help", "-h");
}

int run_command(const Command& command, std::span<const std::string> words) {
  const Grammar grammar{
      {command.options, command.shared, kCommon}, command.words_max, command.rest};
  auto args = Args::parse(grammar, words);
  if (!args) {
    Error error = args.error();
    if (!error.hint.empty()) error.hint += "\n";
    error.hint += "See: trainyard " + std::string(command.name) + " --help";
    return say_error(error);
  }
  if (args->has("query")) {
    if (const auto query = query::Query::compile(args->value("query")); !query) {
      return say_error(query.error());
    }
  }
  if (!command.internal) exit_on_interrupt();
  Context context(command, *std::move(args));
  if (!command.internal) {  // Before anything is done: what cannot be shown is not begun.
    if (const auto format = context.format(); !format) return say_error(format.error());
  }
  const Result<int> code = command.run(context);
  return code ? *code : say_error(code.error());
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }
std::span<const Option> common_options() { return kCommon; }

int run(std::span<const std::string> words) {
  Split split = split_name(kCommon, words, is_group);
  const bool help_word = !split.name.empty() && split.name.front() == "help";
  if (help_word) split = split_name(kCommon, split.left, is_group);
  const std::string name = join(split.name, " ");
  const bool help = help_word || asks_for_help(find_command(name), split.left);
  if (split.name.empty()) {
    if (asks_for(split.left, "--version", "--version")) {
      return show(version_line());
    }
    if (help || split.left.empty()) return show(group_help("", kCommands));
    const auto args = Args::parse({{kCommon}}, split.left);
    if (!args) return say_error(args.error());
    return show(group_help("", kCommands));
  }
  if (const Command* command = find_command(name); command != nullptr) {
    if (help) return show(command_help(*command, kCommon));
    return run_command(*command, split.left);
  }
  if (is_group(name)) return show(group_help(name, kCommands));
  return say_error(unknown_command(split.name));
}

}  // namespace trainyard::cli
