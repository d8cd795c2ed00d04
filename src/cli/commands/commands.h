#pragma once

#include <span>

#include "agent/place.h"
#include "cli/command.h"
#include "cli/context.h"

// What the table of commands (cli.cc) is made of: one function and one table of options a command.
namespace trainyard::cli {

Result<int> submit(Context& context);
extern const std::span<const Option> kSubmitOptions;

Result<int> run_list(Context& context);
Result<int> run_show(Context& context);
Result<int> run_files(Context& context);
Result<int> run_cancel(Context& context);
Result<int> run_delete(Context& context);
Result<int> run_restore(Context& context);
Result<int> run_wait(Context& context);
Result<int> run_logs(Context& context);
Result<int> run_monitor_logs(Context& context);
Result<int> run_download_logs(Context& context);
Result<int> run_download(Context& context);
Result<int> run_cp(Context& context);
extern const std::span<const Option> kRunListOptions;
extern const std::span<const Option> kRunShowOptions;
extern const std::span<const Option> kRunCancelOptions;
extern const std::span<const Option> kRunLogsOptions;
extern const std::span<const Option> kRunMonitorLogsOptions;
extern const std::span<const Option> kRunWaitOptions;
extern const std::span<const Option> kLogsOfRunsOptions;
extern const std::span<const Option> kRunDownloadLogsOptions;
extern const std::span<const Option> kRunDownloadOptions;
extern const std::span<const Option> kRunChoice;  // Which run: for all that take one.

Result<int> run_submit_script(Context& context);
Result<int> run_update(Context& context);
extern const std::span<const Option> kRunSubmitScriptOptions;
extern const std::span<const Option> kRunUpdateOptions;
// All that a run logged, into the folder, or into the folder `below` in it.
struct Fetched {
  uint64_t files = 0;
  uint64_t bytes = 0;
};
Result<Fetched> fetch_logs(Context& context, const RunId& id, const fs::path& folder,
                           const std::string& below = {});

Result<int> job_create(Context& context);
Result<int> job_show(Context& context);
Result<int> job_list(Context& context);
Result<int> job_stream(Context& context);
Result<int> job_cancel(Context& context);
Result<int> job_download(Context& context);
Result<int> job_validate(Context& context);
Result<int> job_update(Context& context);
Result<int> job_archive(Context& context);
Result<int> job_restore(Context& context);
extern const std::span<const Option> kJobCreateOptions;
extern const std::span<const Option> kJobShowOptions;
extern const std::span<const Option> kJobListOptions;
extern const std::span<const Option> kJobDownloadOptions;
extern const std::span<const Option> kJobValidateOptions;
extern const std::span<const Option> kJobUpdateOptions;
extern const std::span<const Option> kJobChoice;  // Which job: for all that take one.

Result<int> folder_attach(Context& context);
extern const std::span<const Option> kFolderAttachOptions;

Result<int> run_rerun(Context& context);
Result<int> run_diff(Context& context);
extern const std::span<const Option> kRunRerunOptions;
extern const std::span<const Option> kRunDiffOptions;
Result<int> run_metrics(Context& context);
extern const std::span<const Option> kRunMetricsOptions;

Result<int> secret_set(Context& context);
Result<int> secret_list(Context& context);
Result<int> secret_delete(Context& context);
extern const std::span<const Option> kSecretSetOptions;
extern const std::span<const Option> kSecretChoice;

Result<int> compute_create(Context& context);
Result<int> compute_update(Context& context);
Result<int> compute_list(Context& context);
Result<int> compute_show(Context& context);
Result<int> compute_list_nodes(Context& context);
Result<int> compute_delete(Context& context);
Result<int> compute_pause(Context& context);
Result<int> compute_resume(Context& context);
Result<int> computetarget_create_amlcompute(Context& context);
Result<int> computetarget_delete(Context& context);
// The compute named by the first word or -n.
Result<std::string> chosen_compute(const Context& context);
extern const std::span<const Option> kComputeCreateOptions;
extern const std::span<const Option> kComputetargetCreateOptions;
extern const std::span<const Option> kComputeUpdateOptions;
extern const std::span<const Option> kComputeChoice;
Result<int> compute_list_sizes(Context& context);
Result<int> compute_size_set(Context& context);
Result<int> compute_size_delete(Context& context);
extern const std::span<const Option> kComputeListSizesOptions;
extern const std::span<const Option> kComputeSizeSetOptions;
extern const std::span<const Option> kComputeSizeChoice;

Result<int> environment_scaffold(Context& context);
Result<int> environment_register(Context& context);
Result<int> environment_create(Context& context);
Result<int> environment_list(Context& context);
Result<int> environment_show(Context& context);
Result<int> environment_download(Context& context);
Result<int> environment_build(Context& context);
Result<int> environment_archive(Context& context);
Result<int> environment_restore(Context& context);
Result<int> environment_delete(Context& context);
Result<int> environment_curated_list(Context& context);
Result<int> environment_curated_set(Context& context);
Result<int> environment_curated_delete(Context& context);
// The environment named by the first word or -n, with -v.
Result<EnvironmentName> chosen_environment(const Context& context);
extern const std::span<const Option> kEnvironmentChoice;
extern const std::span<const Option> kEnvironmentVersionChoice;
extern const std::span<const Option> kEnvironmentBuildOptions;
extern const std::span<const Option> kEnvironmentListOptions;
extern const std::span<const Option> kEnvironmentDownloadOptions;
extern const std::span<const Option> kEnvironmentScaffoldOptions;
extern const std::span<const Option> kEnvironmentRegisterOptions;
extern const std::span<const Option> kEnvironmentCreateOptions;
extern const std::span<const Option> kEnvironmentCuratedSetOptions;
extern const std::span<const Option> kEnvironmentCuratedChoice;

Result<int> experiment_list(Context& context);
Result<int> experiment_delete(Context& context);
Result<int> experiment_restore(Context& context);
// For lists that are short: newest first, cut by --last.
extern const std::span<const Option> kListOptions;
Status print_list(Context& context, Json list, const View& view);

Result<int> workspace_create(Context& context);
Result<int> workspace_list(Context& context);
Result<int> workspace_update(Context& context);
Result<int> workspace_show(Context& context);
Result<int> workspace_delete(Context& context);
extern const std::span<const Option> kWorkspaceCreateOptions;
extern const std::span<const Option> kWorkspaceUpdateOptions;
extern const std::span<const Option> kWorkspaceChoice;
Result<int> workspace_share_add(Context& context);
Result<int> workspace_share_list(Context& context);
Result<int> workspace_share_remove(Context& context);
extern const std::span<const Option> kWorkspaceShareUser;
extern const std::span<const Option> kWorkspaceShareOptions;

Result<int> server_run(Context& context);
Result<int> server_start(Context& context);
Result<int> server_stop(Context& context);
Result<int> server_status(Context& context);
Result<int> server_backup(Context& context);
Result<int> server_restore(Context& context);
Result<int> server_check(Context& context);
Result<int> server_gc(Context& context);
Result<int> server_policy_show(Context& context);
Result<int> server_policy_set(Context& context);
// The file an option names, absolute: the server has another current folder. Empty: not given.
Result<fs::path> file_option(const Args& args, std::string_view key);
extern const std::span<const Option> kServerRunOptions;
extern const std::span<const Option> kServerStartOptions;
extern const std::span<const Option> kServerStatusOptions;
extern const std::span<const Option> kServerBackupOptions;
extern const std::span<const Option> kServerRestoreOptions;
extern const std::span<const Option> kServerCheckOptions;
extern const std::span<const Option> kServerGcOptions;
extern const std::span<const Option> kDeleteOptions;  // --now
extern const std::span<const Option> kRunDeleteOptions;
extern const std::span<const Option> kExperimentChoice;
extern const std::span<const Option> kServerPolicySetOptions;

Result<int> user_create(Context& context);
Result<int> user_list(Context& context);
Result<int> user_update(Context& context);
Result<int> user_delete(Context& context);
extern const std::span<const Option> kUserCreateOptions;
extern const std::span<const Option> kUserUpdateOptions;
extern const std::span<const Option> kUserChoice;

Result<int> token_create(Context& context);
Result<int> token_list(Context& context);
Result<int> token_revoke(Context& context);
extern const std::span<const Option> kTokenCreateOptions;
extern const std::span<const Option> kTokenChoice;

Result<int> node_token(Context& context);
Result<int> node_join(Context& context);
Result<int> node_run(Context& context);
Result<int> node_own(Context& context);
Result<int> node_list(Context& context);
Result<int> node_show(Context& context);
Result<int> node_leave(Context& context);
Result<int> node_remove(Context& context);
Result<int> node_exec(Context& context);
extern const std::span<const Option> kNodeExecOptions;
// The one server this home's machine has joined, or that of --server.
Result<agent::Place> joined_place(const Context& context);
// Makes a one-time token for a machine to join with, and prints it.
Status print_node_token(Context& context, std::string_view name, std::string_view label);
extern const std::span<const Option> kNodeTokenOptions;
extern const std::span<const Option> kNodeJoinOptions;
extern const std::span<const Option> kNodeRunOptions;
extern const std::span<const Option> kNodeChoice;
extern const std::span<const Option> kNodeForce;

Result<int> login(Context& context);
Result<int> logout(Context& context);
Result<int> configure(Context& context);
extern const std::span<const Option> kLoginOptions;
extern const std::span<const Option> kConfigureOptions;

Result<int> doctor(Context& context);
Result<int> version(Context& context);
std::string version_line();  // "trainyard 0.1.0 (31d2755c1a52)\n"; also that of --version.
Result<int> completion(Context& context);
Result<int> complete_words(Context& context);  // "__complete"

Result<int> supervise(Context& context);
extern const std::span<const Option> kSuperviseOptions;

}  // namespace trainyard::cli
