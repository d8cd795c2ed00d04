#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/dry_run.h"
#include "cli/environment_options.h"
#include "cli/submission.h"

namespace trainyard::cli {
namespace {

constexpr Option kSubmitRows[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME",
     "The experiment; else the attached one, else the folder's name."},
    {"--target --ct --compute-target-name", Takes::value, "NAME", "Where to run; else local."},
    {"--cpus", Takes::value, "C", "CPUs it needs; else 1."},
    {"--mem", Takes::value, "SIZE", "Memory it needs: 512M, 4G. A run that takes more is killed."},
    {"--gpus", Takes::value, "G", "GPUs it needs; else 0."},
    {"--time", Takes::value, "LIMIT", "Stop it after 90, 15m, 2h, 1:30:00."},
    {"--nodes", Takes::value, "N", "Machines; else 1."},
    {"--processes-per-node", Takes::value, "P", "Ranks on each machine; else 1."},
    {"--distribution", Takes::value, "KIND", "pytorch, mpi, tensorflow or none: how ranks meet."},
    {"--preparation", Takes::value, "CMD",
     "Run this in a shell once on each machine, before the ranks."},
    {"--env-var", Takes::value, "K=V", "A variable of the run; again for more."},
    {"--tag", Takes::value, "K=V", "A tag of the run; again for more."},
    {"--name", Takes::value, "TEXT", "What to call it; else its id."},
    {"--priority", Takes::value, "PRIORITY", "low, normal or high: who goes first; else normal."},
    {"--max-retries", Takes::value, "K", "Try again so often when it fails or is lost; else 0."},
    {"--retry-on", Takes::value, "CAUSES",
     "For which ends: failed, lost, no_space, time_limit; else failed,lost."},
    {"--secret", Takes::value, "SECRET", "A secret to be a variable of that name; again for more."},
    {"--download", Takes::value, "DIR", "Fetch the outputs into DIR/outputs at the end."},
    {"--async --no-wait", Takes::nothing, "", "Print the run's id and do not wait."},
    {"--dry-run", Takes::nothing, "", "Show what would be sent and run; submit nothing."},
    {"--input", Takes::value, "SPEC", "", Since::later},
    {"--checkpoint", Takes::value, "DIR", "", Since::later},
};

Status check_distribution(const std::string& kind) {
  for (const char* known : {"", "none", "pytorch", "mpi", "tensorflow"}) {
    if (kind == known) return {};
  }
  return fail(ErrorKind::invalid, "--distribution " + kind + ": not known",
              "Kinds: pytorch, mpi, tensorflow, none.");
}

Status set_numbers(const Args& args, RunSpec& spec) {
  TRY_SET(const auto cpus, int_option(args, "cpus", 1));
  TRY_SET(const auto gpus, int_option(args, "gpus", 0));
  TRY_SET(const auto nodes, int_option(args, "nodes", 1));
  TRY_SET(const auto processes, int_option(args, "processes-per-node", 1));
  spec.resources.cpus = cpus.value_or(1);
  spec.resources.gpus = gpus.value_or(0);
  spec.nodes = nodes.value_or(1);
  spec.processes_per_node = processes.value_or(1);
  if (args.has("mem")) {
    TRY_SET(spec.resources.memory_bytes, parse_size(args.value("mem"), "--mem"));
  }
  if (args.has("time")) {
    TRY_SET(const seconds limit, parse_duration(args.value("time"), "--time"));
    if (limit <= seconds(0)) return fail(ErrorKind::invalid, "--time must be more than nothing");
    spec.time_limit_s = limit.count();
  }
  return {};
}

Status set_retries(const Args& args, RunSpec& spec) {
  TRY_SET(const auto retries, int_option(args, "max-retries", 0));
  spec.retry.max = retries.value_or(0);
  for (const std::string& word : args.values("retry-on")) {
    for (const std::string& cause : split(word, ',')) spec.retry.causes.push_back(cause);
  }
  if (!spec.retry.causes.empty() && !retries) {
    return fail(ErrorKind::invalid, "--retry-on without --max-retries tries nothing again");
  }
  return {};
}

Result<RunSpec> make_spec(const Context& context, const fs::path& folder) {
  const Args& args = context.args();
  RunSpec spec;
  spec.command = args.rest();
  dialects::EnvironmentDraft draft;
  TRY(apply_environment_options(context, draft));
  spec.environment = std::move(draft.environment);
  // An image, or what a name stands for, may have a command of its own.
  const bool has_own = args.has("image") || !spec.environment.name.empty();
  if (spec.command.empty() && !has_own) {
    return fail(ErrorKind::invalid, "no command to run",
                "Put it after --, as in: trainyard submit -- python train.py");
  }
  TRY_SET(spec.workspace, context.workspace());
  TRY_SET(spec.experiment, experiment_for(context, folder));
  spec.display_name = args.value("name");
  spec.target = args.value("target", "local");
  spec.preparation = args.value("preparation");
  spec.distribution = args.value("distribution");
  TRY(check_distribution(spec.distribution));
  TRY(set_numbers(args, spec));
  TRY(set_retries(args, spec));
  TRY_SET(spec.priority, priority_from(args.value("priority", "normal")));
  for (const std::string& secret : args.values("secret")) {
    const auto& named = spec.secrets;
    if (std::find(named.begin(), named.end(), secret) == named.end()) {
      spec.secrets.push_back(secret);
    }
  }
  TRY_SET(spec.environment_variables, parse_pairs(args.values("env-var"), "--env-var"));
  TRY_SET(spec.tags, parse_pairs(args.values("tag"), "--tag"));
  spec.submit_environment = submit_environment();
  return spec;
}

}  // namespace

constinit const std::span<const Option> kSubmitOptions = kSubmitRows;

Result<int> submit(Context& context) {
  const bool async = context.args().has("async");
  if (async && context.args().has("download")) {
    return fail(ErrorKind::invalid, "--download waits for the run's end, --async does not",
                "Fetch the outputs later with: trainyard run download RUN");
  }
  TRY_SET(const fs::path folder, context.folder());
  TRY_SET(RunSpec spec, make_spec(context, folder));
  Submission submission{.spec = std::move(spec), .code = folder, .id = new_run_id()};
  if (context.args().has("dry-run")) return dry_run(context, submission);
  TRY_SET(const SubmitOutcome outcome,
          submit_run(context, std::move(submission), async ? Then::print_id : Then::follow));
  return outcome.code;
}

}  // namespace trainyard::cli
