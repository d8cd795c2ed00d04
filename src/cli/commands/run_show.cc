#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/run_view.h"
#include "snapshot/tree.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunShowRows[] = {
    {"--files", Takes::nothing, "", "List every file of the snapshot."},
};

constexpr Option kRunChoiceRows[] = {
    {"--run -r --run-id", Takes::value, "RUN",
     "The run: its id, the beginning of it, its name, or latest."},
    {"--name -n", Takes::value, "RUN", "The same."},
    {"--experiment-name -e --experiment", Takes::value, "NAME", "Refuse it in another experiment."},
};

std::string_view kind_word(snapshot::EntryKind kind) {
  switch (kind) {
    case snapshot::EntryKind::file:
      return "file";
    case snapshot::EntryKind::executable:
      return "executable";
    case snapshot::EntryKind::symlink:
      return "symlink";
    case snapshot::EntryKind::folder:
      return "folder";
  }
  return "";
}

Json files_of(const snapshot::Tree& tree) {
  Json files = Json::array();
  for (const snapshot::Entry& entry : tree.entries) {
    Json file = {{"path", entry.path}, {"kind", kind_word(entry.kind)}, {"size", entry.size}};
    if (entry.kind == snapshot::EntryKind::symlink) {
      file["target"] = entry.target;
    } else if (entry.kind != snapshot::EntryKind::folder) {
      file["digest"] = entry.digest.hex();
    }
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

constinit const std::span<const Option> kRunShowOptions = kRunShowRows;
constinit const std::span<const Option> kRunChoice = kRunChoiceRows;

Result<int> run_show(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(Json run, api->run(id));
  const std::string snapshot_id = cell_of(run, "snapshotId");
  if (!snapshot_id.empty() && context.args().value("output") != "none") {
    const auto tree = api->snapshot(RunId{cell_of(run, "id")});
    if (tree) {
      run["snapshot"] = {{"id", snapshot_id}, {"files", files_of(*tree)}};
    } else {
      context.warn("its code cannot be listed: " + tree.error().message);
    }
  }
  const Files files = context.args().has("files") ? Files::all : Files::some;
  TRY(context.print(run, run_details_view(context, files)));
  return kExitOk;
}

}  // namespace trainyard::cli
