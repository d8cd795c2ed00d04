#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/run_names.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr size_t kNamesShown = 10;

constexpr Option kRunDeleteRows[] = {
    {"--now", Takes::nothing, "", "Delete for good: nothing can be restored."},
    {"--all", Takes::nothing, "", "All of your runs in the workspace that are over."},
};

constexpr Option kDeleteRows[] = {
    {"--now", Takes::nothing, "", "Delete for good: nothing can be restored."},
};

// "deleted; restore with … until …"
std::string deletion_words(const Json& answer, const std::string& restore) {
  const std::string until = cell_of(answer, "restorableUntil");
  return until.empty()
             ? "deleted for good"
             : "deleted; until " + until + " it can be restored with: trainyard " + restore;
}

Result<std::string> chosen_experiment(const Context& context) {
  std::vector<std::string> names = context.args().words();
  for (const std::string_view key : {"name", "experiment-name"}) {
    if (context.args().has(key)) names.push_back(context.args().value(key));
  }
  if (names.size() == 1 && !names.front().empty()) return names.front();
  return fail(ErrorKind::invalid, names.empty() ? "which experiment?" : "one experiment at a time",
              "As in: trainyard " + std::string(context.command().name) + " NAME");
}

constexpr Option kExperimentNames[] = {
    {"--name -n", Takes::value, "NAME", "The experiment."},
    {"--experiment-name -e", Takes::value, "NAME", "The same."},
};

}  // namespace

constinit const std::span<const Option> kDeleteOptions = kDeleteRows;
constinit const std::span<const Option> kRunDeleteOptions = kRunDeleteRows;
constinit const std::span<const Option> kExperimentChoice = kExperimentNames;

Result<int> run_delete(Context& context) {
  TRY_SET(const std::vector<RunId> runs, named_or_all(context, kOverStatuses));
  if (runs.empty()) {
    context.say("no run of yours is over");
    return kExitOk;
  }
  std::vector<std::string> names;
  for (const RunId& run : runs) names.push_back(run.value);
  if (names.size() > kNamesShown) {
    const std::string more = std::to_string(names.size() - kNamesShown) + " more";
    names.resize(kNamesShown);
    names.push_back(more);
  }
  TRY(context.confirm((runs.size() == 1 ? "Delete the run " : "Delete the runs ") +
                      join(names, ", ") + "?"));
  TRY_SET(client::Api * api, context.api());
  Json deleted = Json::array();
  std::optional<Error> failed;
  // One that cannot be deleted keeps none of the others.
  for (const RunId& run : runs) {
    const Result<Json> answer = api->delete_run(run, context.args().has("now"));
    if (!answer) {
      if (failed) context.insist("error: " + failed->message);
      failed = answer.error();
      continue;
    }
    for (const Json& id : (*answer)["deleted"]) {
      deleted.push_back(id);
      const std::string name = id.get<std::string>();
      context.say("run " + name + " is " + deletion_words(*answer, "run restore " + name));
    }
  }
  if (!failed || !deleted.empty()) TRY(context.print(deleted, any_view()));
  if (failed) return std::unexpected(*std::move(failed));
  return kExitOk;
}

Result<int> run_restore(Context& context) {
  TRY_SET(const std::vector<std::string> words, run_words(context));
  for (const std::string& word : words) TRY(check_name(word, "run"));
  TRY_SET(client::Api * api, context.api());
  Json restored = Json::array();
  for (const std::string& word : words) {
    TRY_SET(Json shown, api->restore_run(RunId{word}));
    restored.push_back(std::move(shown));
  }
  const WallTime now = context.clock().wall();
  TRY(context.print(restored, {.table = [now](const Json& list) {
                      Table table{run_header(), {}};
                      for (const Json& run : list) table.rows.push_back(run_row(run, now));
                      return table;
                    }}));
  return kExitOk;
}

Result<int> experiment_delete(Context& context) {
  TRY_SET(const std::string name, chosen_experiment(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY(context.confirm("Delete the experiment " + name + " and all its runs?"));
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json answer, api->delete_experiment(workspace, name, context.args().has("now")));
  context.say("experiment " + name + " and its " + cell_of(answer, "deleted") +
              " runs: " + deletion_words(answer, "experiment restore " + name));
  TRY(context.print(answer, any_view()));
  return kExitOk;
}

Result<int> experiment_restore(Context& context) {
  TRY_SET(const std::string name, chosen_experiment(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json answer, api->restore_experiment(workspace, name));
  context.say("experiment " + name + " is restored with " + cell_of(answer, "restored") + " runs");
  TRY(context.print(answer, any_view()));
  return kExitOk;
}

}  // namespace trainyard::cli
