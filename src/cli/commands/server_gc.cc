#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/progress.h"

namespace trainyard::cli {
namespace {

constexpr milliseconds kLookAgain{200};

constexpr Option kServerGcRows[] = {
    {"--dry-run", Takes::nothing, "", "Remove nothing; say what would be removed."},
};

uint64_t count_of(const Json& json, const char* key) { return json.value(key, uint64_t{0}); }

std::string size_of(const Json& json, const char* key) { return format_size(count_of(json, key)); }

// One line for each kind of thing, zeros too: an empty answer would not say what was searched.
std::string report_words(const Json& report) {
  const bool dry = report.value("dryRun", false);
  Table table{{"WHAT", dry ? "WOULD BE REMOVED" : "REMOVED", "OF", "SIZE"}, {}};
  table.rows.push_back({"blobs", cell_of(report, "removedBlobs"), cell_of(report, "blobs"),
                        size_of(report, "removedBytes")});
  table.rows.push_back({"folders of deleted runs", cell_of(report, "removedFolders"), "", ""});
  table.rows.push_back({"environments", cell_of(report, "removedEnvironments"), "",
                        size_of(report, "environmentBytes")});
  if (!dry) {
    table.rows.push_back({"runs past restoring", cell_of(report, "removedRuns"), "", ""});
    table.rows.push_back({"runs past their retention", cell_of(report, "expiredRuns"), "", ""});
  }
  std::string text = render_table(table, {});
  if (count_of(report, "youngBlobs") > 0) {
    text += "Unused but younger than a day, kept for now: " + cell_of(report, "youngBlobs") +
            " blobs, " + size_of(report, "youngBytes") + "\n";
  }
  if (dry) {
    text +=
        "Nothing was removed. To remove it: trainyard server gc\n"
        "Not counted: what runs hold that are past restoring or past their retention.\n";
  }
  return text;
}

}  // namespace

constinit const std::span<const Option> kServerGcOptions = kServerGcRows;

Result<int> server_gc(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(Json state, api->begin_collection(context.args().has("dry-run")));
  Progress progress(context.clock(), "", context.shows_progress());
  while (state.value("running", false)) {
    progress.say(cell_of(state, "phase") + ": " + cell_of(state, "looked") + " looked at, " +
                 cell_of(state, "removed") + " removed, " + size_of(state, "bytes"));
    context.clock().sleep_until(context.clock().steady() + kLookAgain, {});
    TRY_SET(state, api->collection());
  }
  if (state.contains("error") && state["error"].is_object()) {
    return std::unexpected(wire::error_from_answer(0, wire::dump({{"error", state["error"]}})));
  }
  View view = any_view();
  view.text = report_words;
  TRY(context.print(state["report"], view));
  return kExitOk;
}

}  // namespace trainyard::cli
