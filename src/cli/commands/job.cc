#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/job_view.h"
#include "cli/run_names.h"
#include "cli/run_pages.h"

namespace trainyard::cli {
namespace {

constexpr Option kJobChoiceRows[] = {
    {"--name -n", Takes::value, "NAME",
     "The job: its name, the beginning of it, its display name, or latest."},
    {"--run --run-id", Takes::value, "RUN", "The same."},
    {"--experiment-name --experiment", Takes::value, "NAME", "Refuse it in another experiment."},
};
constexpr Option kShowOptions[] = {
    {"--web -e", Takes::nothing, "", "", Since::later},
};
constexpr Option kListOfJobsOptions[] = {
    {"--max-results -r --last", Takes::value, "N", "The newest N; else all."},
    {"--all-results", Takes::nothing, "", "All of them, as without it."},
    {"--parent-job-name -p", Takes::value, "RUN", "Only this job's children."},
    {"--tag --tags", Takes::value, "K=V", "Only those with this tag; K alone: any value."},
    {"--experiment-name --experiment", Takes::value, "NAME", "Only this experiment's."},
    {"--archived-only", Takes::nothing, "", "Only those that are put away."},
    {"--include-archived", Takes::nothing, "", "Those that are put away too."},
    {"--asset-name", Takes::value, "NAME", "", Since::later},
    {"--schedule-defined", Takes::nothing, "", "", Since::later},
    {"--scheduled-job-name", Takes::value, "NAME", "", Since::later},
};
constexpr Option kJobUpdateRows[] = {
    {"--set", Takes::list, "K=V", "display_name=…, description=…, tags.K=… or properties.K=…"},
    {"--remove", Takes::list, "tags.K", "Take this tag away."},
    {"--web -e", Takes::nothing, "", "", Since::later},
    {"--add", Takes::list, "K", "", Since::later},
};

Status print_job(Context& context, const Json& run) {
  return context.print(job_json(run), job_view(context));
}

std::unexpected<Error> refuse_key(const std::string& key) {
  std::vector<std::string> known = {"display_name", "description", "tags", "properties"};
  const std::string near = nearest(key.substr(0, key.find('.')), known);
  return fail(ErrorKind::invalid, "'" + key + "' of a job cannot be changed",
              (near.empty() || near == key ? "" : "Did you mean '" + near + "'? ") +
                  std::string("What can: display_name, description, tags.K, properties.K."));
}

// "tags.lr" -> "lr", when it is below `section`.
std::string below(const std::string& key, std::string_view section) {
  const std::string prefix = std::string(section) + ".";
  return key.starts_with(prefix) ? key.substr(prefix.size()) : "";
}

Result<Json> label_changes(const Args& args) {
  Json changes = Json::object();
  for (const std::string& word : args.values("set")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(ErrorKind::invalid, "--set '" + word + "' is not KEY=VALUE",
                  "As in: --set tags.stage=final");
    }
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (key == "display_name") {
      changes["displayName"] = value;
    } else if (key == "description") {
      changes["description"] = value;
    } else if (const std::string tag = below(key, "tags"); !tag.empty()) {
      changes["tags"][tag] = value;
    } else if (const std::string name = below(key, "properties"); !name.empty()) {
      changes["properties"][name] = value;
    } else {
      return refuse_key(key);
    }
  }
  for (const std::string& key : args.values("remove")) {
    const std::string tag = below(key, "tags");
    if (tag.empty()) {
      return fail(ErrorKind::invalid, "'" + key + "' of a job cannot be removed",
                  "What can: tags.K.");
    }
    changes["tags"][tag] = nullptr;
  }
  if (!changes.empty()) return changes;
  return fail(ErrorKind::invalid, "what is to be changed?", "As in: --set tags.stage=final");
}

Result<int> set_job_archived(Context& context, bool archived) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->update(id, {{"archived", archived}}));
  TRY(print_job(context, run));
  return kExitOk;
}

}  // namespace

constinit const std::span<const Option> kJobChoice = kJobChoiceRows;
constinit const std::span<const Option> kJobShowOptions = kShowOptions;
constinit const std::span<const Option> kJobListOptions = kListOfJobsOptions;
constinit const std::span<const Option> kJobUpdateOptions = kJobUpdateRows;

Result<int> job_show(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(id));
  TRY(print_job(context, run));
  return kExitOk;
}

Result<int> job_list(Context& context) {
  const Args& args = context.args();
  TRY_SET(const std::optional<int> last, int_option(args, "max-results", 1));
  if (args.has("archived-only") && args.has("include-archived")) {
    return fail(ErrorKind::invalid, "--archived-only and --include-archived say different things");
  }
  client::RunQuery query{.experiment = args.value("experiment-name"),
                         .parent = args.value("parent-job-name"),
                         .tag = args.value("tag")};
  if (!query.parent.empty()) {
    TRY_SET(const RunId parent, find_run(context, query.parent));
    query.parent = parent.value;
  }
  if (args.has("archived-only")) query.archived = "only";
  if (args.has("include-archived")) query.archived = "any";
  TRY_SET(query.workspace, context.workspace());
  const WallTime now = context.clock().wall();
  TRY(print_runs(context, query, last,
                 {job_header(), [now](const Json& job) { return job_row(job, now); }, job_raw_row},
                 [](const Json& run) { return job_json(run); }));
  return kExitOk;
}

Result<int> job_cancel(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->cancel(id));
  TRY(print_job(context, run));
  return kExitOk;
}

Result<int> job_update(Context& context) {
  TRY_SET(const Json changes, label_changes(context.args()));
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->update(id, changes));
  TRY(print_job(context, run));
  return kExitOk;
}

Result<int> job_archive(Context& context) { return set_job_archived(context, true); }

Result<int> job_restore(Context& context) { return set_job_archived(context, false); }

}  // namespace trainyard::cli
