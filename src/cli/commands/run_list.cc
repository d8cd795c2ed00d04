#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"
#include "cli/run_view.h"

namespace trainyard::cli {
namespace {

constexpr int kPage = 500;

constexpr Option kOptions[] = {
    {"--experiment-name -e --experiment", Takes::value, "NAME", "Only this experiment's."},
    {"--status", Takes::value, "STATUS", "Only those in this state: Running, Completed, …"},
    {"--compute-target-name --target --ct", Takes::value, "NAME", "Only those of this target."},
    {"--tags --tag", Takes::list, "K=V", "Only those with all of these tags; K alone: any value."},
    {"--last", Takes::value, "N", "The newest N; else all."},
    {"--minimal", Takes::nothing, "", "Only id, experiment, status and times."},
    {"--parent-run-id", Takes::value, "RUN", "Only this run's children."},
    {"--pipeline-run-id", Takes::value, "RUN", "", Since::later},
};

constexpr std::string_view kMinimal[] = {"id",     "runId",     "name",      "experiment",
                                         "status", "createdAt", "startedAt", "endedAt"};

bool has_tags(const Json& run, const std::vector<std::string>& wanted) {
  const auto tags = run.find("tags");
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& pair) {
    const size_t equals = pair.find('=');
    const auto found = tags == run.end() || !tags->is_object() ? Json::const_iterator{}
                                                               : tags->find(pair.substr(0, equals));
    if (tags == run.end() || !tags->is_object() || found == tags->end()) return false;
    return equals == std::string::npos || cell(*found) == pair.substr(equals + 1);
  });
}

Json minimal(const Json& run) {
  Json out = Json::object();
  for (const std::string_view key : kMinimal) {
    if (const auto found = run.find(key); found != run.end()) out[std::string(key)] = *found;
  }
  return out;
}

// Takes the pages as they come: a home may have a hundred thousand runs, and a JSON value of all of
// them would take a gigabyte.
class Printer {
 public:
  Printer(Context& context, Format format) : context_(context), format_(format) {
    if (by_item()) return;
    table_.header = run_header();
  }

  Status add(const Json& run) {
    if (!by_item()) {
      if (format_ == Format::tsv) {
        table_.rows.push_back(run_raw_row(run));
      } else if (format_ != Format::none) {
        table_.rows.push_back(run_row(run, context_.clock().wall()));
      }
      return {};
    }
    // A list of one, without its brackets, is what stands between those of the whole.
    const std::string one = render(Json::array({run}), format_, {}, context_.screen());
    if (!is_json()) return put(one, false);
    return put((first_ ? "[\n" : ",\n") + one.substr(2, one.size() - 5), false);
  }

  Status finish() {
    if (is_json()) return put(first_ ? "[]\n" : "\n]\n", true);
    if (by_item()) return put(first_ ? "[]\n" : "", true);
    if (format_ == Format::none) return {};
    return put(
        format_ == Format::tsv ? render_tsv(table_) : render_table(table_, context_.screen()),
        true);
  }

 private:
  bool is_json() const { return format_ == Format::json || format_ == Format::jsonc; }
  bool by_item() const { return is_json() || format_ == Format::yaml || format_ == Format::yamlc; }

  Status put(std::string_view text, bool last) {
    constexpr size_t kPiece = 64 * 1024;
    first_ = false;
    held_.append(text);
    if (!last && held_.size() < kPiece) return {};
    TRY(write_output(STDOUT_FILENO, held_));
    held_.clear();
    return {};
  }

  Context& context_;
  Format format_;
  Table table_;
  std::string held_;
  bool first_ = true;
};

}  // namespace

constinit const std::span<const Option> kRunListOptions = kOptions;

Result<int> run_list(Context& context) {
  const Args& args = context.args();
  TRY_SET(const std::optional<int> last, int_option(args, "last", 1));
  TRY_SET(const Format format, context.format());
  client::RunQuery query{.experiment = args.value("experiment-name"),
                         .status = args.value("status"),
                         .target = args.value("compute-target-name"),
                         .parent = args.value("parent-run-id")};
  if (!query.status.empty()) TRY(run_status_from(query.status));
  TRY_SET(query.workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());

  Printer printer(context, format);
  const bool whole = args.has("output-metadata-file") || args.has("query");
  Json kept = Json::array();  // Where all of them are needed at once.
  int left = last.value_or(0);
  std::string cursor;
  do {
    TRY_SET(const client::Page page,
            api->runs(query, last ? std::clamp(left, 1, kPage) : kPage, cursor));
    cursor = page.next;
    for (const Json& run : page.items) {
      if (!has_tags(run, args.values("tags"))) continue;
      const Json shown = args.has("minimal") ? minimal(run) : run;
      if (whole) {
        kept.push_back(shown);
      } else {
        TRY(printer.add(shown));
      }
      if (last && --left == 0) break;
    }
  } while (!cursor.empty() && (!last || left > 0));
  if (whole) {
    const WallTime now = context.clock().wall();
    TRY(context.print(kept, {.table = [now](const Json& runs) {
                        Table table{run_header(), {}};
                        for (const Json& run : runs) table.rows.push_back(run_row(run, now));
                        return table;
                      }}));
    return kExitOk;
  }
  TRY(printer.finish());
  return kExitOk;
}

}  // namespace trainyard::cli
