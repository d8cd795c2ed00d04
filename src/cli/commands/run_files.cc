#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"

namespace trainyard::cli {

Result<int> run_files(Context& context) {
  TRY_SET(const RunId id, context.chosen_run());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json files, api->files(id));
  const Format format = context.format().value_or(Format::json);
  const auto table = [&](const Json& list) {
    Table rows{{"PATH", "SIZE", "KIND"}, {}};
    for (const Json& file : list) {
      const auto size = file.value("size", uint64_t{0});
      rows.rows.push_back({cell_of(file, "path"),
                           format == Format::tsv ? std::to_string(size) : format_size(size),
                           cell_of(file, "kind")});
    }
    return rows;
  };
  TRY(context.print(files, {.table = table}));
  return kExitOk;
}

}  // namespace trainyard::cli
