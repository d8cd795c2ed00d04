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

std::string report_words(const Json& report) {
  const bool dry_run = report.value("dryRun", false);
  const std::string removed = dry_run ? "would be removed" : "removed";
  std::string text;
  if (count_of(report, "expiredRuns") > 0) {
    text += cell_of(report, "expiredRuns") + " runs older than their workspace keeps them " +
            (dry_run ? "would be deleted" : "deleted") + "\n";
  }
  if (count_of(report, "removedRuns") > 0) {
    text += cell_of(report, "removedRuns") + " deleted runs " + removed + "\n";
  }
  if (count_of(report, "damagedTrees") > 0) {
    text += cell_of(report, "damagedTrees") +
            " trees are damaged, so the blobs they list are not known: every blob is kept. Find "
            "their runs with: trainyard server check --content\n";
  }
  text += cell_of(report, "blobs") + " blobs looked at: " + cell_of(report, "removedBlobs") + " " +
          removed + ", " + size_of(report, "removedBytes") + "\n";
  if (count_of(report, "youngBlobs") > 0) {
    text += cell_of(report, "youngBlobs") + " unused blobs of " + size_of(report, "youngBytes") +
            " are younger than a day and stay for now\n";
  }
  if (count_of(report, "removedFolders") > 0) {
    text += cell_of(report, "removedFolders") + " folders of runs that are gone " + removed + "\n";
  }
  if (count_of(report, "removedEnvironments") > 0) {
    text += cell_of(report, "removedEnvironments") + " unused environments " + removed + ", " +
            size_of(report, "environmentBytes") + "\n";
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
