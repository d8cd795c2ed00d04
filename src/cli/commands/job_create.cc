#include <unistd.h>

#include <cerrno>

#include "cli/commands/commands.h"
#include "cli/dry_run.h"
#include "cli/exit.h"
#include "cli/follow.h"
#include "cli/job_file.h"
#include "cli/job_view.h"
#include "cli/named_file.h"
#include "cli/submission.h"
#include "dialects/job.h"

namespace trainyard::cli {
namespace {

constexpr Option kJobCreateRows[] = {
    {"--file -f", Takes::value, "FILE", "The job file."},
    {"--name -n", Takes::value, "TEXT", "Its name, which is the run's id; else a new one."},
    {"--set", Takes::list, "K=V", "Put this in the place of what the file says: inputs.lr=0.1"},
    {"--stream -s", Takes::nothing, "", "Show what it prints, and exit as it did."},
    {"--web -e", Takes::nothing, "", "", Since::later},
    {"--save-as -a", Takes::value, "FILE", "Write the job file there, with -n and --set in it."},
    {"--experiment-name --experiment", Takes::value, "NAME", "The experiment; else the file's."},
    {"--dry-run", Takes::nothing, "", "Show what would be sent and run; submit nothing."},
    {"--skip-validation", Takes::nothing, "",
     "Taken from scripts for Azure; what is wrong is found anyhow."},
};

// Fails before the submission where it could not be written after it.
Status check_save_as(const Args& args) {
  if (!args.has("save-as")) return {};
  const fs::path file = args.value("save-as");
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    return fail(ErrorKind::invalid, "--save-as " + file.string() + ": it is a folder");
  }
  if (is_stream(file)) return {};
  if (access(folder.c_str(), W_OK) != 0) return fail_errno(errno, "--save-as " + file.string());
  return {};
}

// A name that was not given is left out: the file can be submitted again.
Status save(const fs::path& file, const dialects::Document& document, bool named,
            const Json& created) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  Json job = job_file(document, folder);
  job.erase("name");
  if (named) job["name"] = wire::member(created, "name");
  job["experiment_name"] = wire::member(created, "experiment_name");
  const bool yaml = file.extension() == ".yml" || file.extension() == ".yaml";
  TRY_WITHIN("--save-as " + file.string(),
             write_named_file(file, yaml ? render_yaml(job, false) : render_json(job, false)));
  return {};
}

// A name is given once. The server takes the same submission twice for one that was repeated.
Status check_new(client::Api& api, const RunId& id) {
  const auto there = api.run(id);
  const bool same = there && cell_of(*there, "id") == id.value;
  if (same) {
    return fail(ErrorKind::conflict, "job " + id.value + " exists already",
                "Give another name with -n, or none. See it with: trainyard job show " + id.value);
  }
  if (!there && there.error().kind == ErrorKind::unavailable) {
    return std::unexpected(there.error());
  }
  return {};
}

Result<Submission> make_submission(const Context& context, dialects::Job job) {
  for (const std::string& warning : job.warnings) context.warn(warning);
  Submission submission{
      .spec = std::move(job.spec), .id = job.id, .places = job.places, .build = job.build};
  RunSpec& spec = submission.spec;
  TRY_SET(spec.workspace, context.workspace());
  if (spec.experiment.empty() || context.args().has("experiment-name")) {
    TRY_SET(const fs::path folder, context.folder());
    TRY_SET(spec.experiment, experiment_for(context, folder));
  }
  spec.submit_environment = submit_environment();
  if (!job.code.empty()) {
    std::error_code error;
    submission.code = fs::absolute(job.code, error).lexically_normal();
    if (error) return fail_errno(error.value(), job.code.string());
  }
  if (const auto place = job.places.find("compute"); place != job.places.end()) {
    submission.places["target"] = place->second;
  }
  return submission;
}

Result<int> stream(Context& context, const Json& run) {
  const RunId id{cell_of(run, "id")};
  FollowOptions options;
  options.ranks = run.value("rankCount", 1);
  options.version = run.value("version", int64_t{0});
  Interrupts interrupts([&] { say_interrupted(context, id); }, [&] { context.interrupt(); });
  TRY_SET(const Followed followed, follow_run(context, id, options, interrupts));
  return finish_followed(context, id, followed);
}

}  // namespace

constinit const std::span<const Option> kJobCreateOptions = kJobCreateRows;

Result<int> job_create(Context& context) {
  const Args& args = context.args();
  if (!args.has("file") || args.value("file").empty()) {
    return fail(ErrorKind::invalid, "which job file?", "As in: trainyard job create -f job.yml");
  }
  TRY_SET(dialects::Job job, dialects::load_job({.file = args.value("file"),
                                                 .name = args.value("name"),
                                                 .sets = args.values("set")}));
  TRY(check_save_as(args));
  const bool named = job.named;
  const dialects::Document document = std::move(job.document);
  TRY_SET(Submission submission, make_submission(context, std::move(job)));
  if (args.has("dry-run")) return dry_run(context, submission);
  if (named) {
    TRY_SET(client::Api * api, context.api());
    TRY(check_new(*api, submission.id));
  }
  TRY_SET(const SubmitOutcome outcome, submit_run(context, std::move(submission), Then::nothing));
  const Json created = job_json(outcome.run);
  if (args.has("save-as")) TRY(save(args.value("save-as"), document, named, created));
  if (!args.has("stream")) {
    TRY(context.print(created, job_view(context)));
    return outcome.code;
  }
  if (args.has("output-metadata-file")) TRY(context.write_metadata(created));
  return stream(context, outcome.run);
}

Result<int> job_stream(Context& context) {
  TRY_SET(const RunId chosen, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(Json run, api->run(chosen));
  run["version"] = 0;  // From the beginning, whatever we know of it.
  return stream(context, run);
}

}  // namespace trainyard::cli
