// Building an environment before a run needs it.
#include <unistd.h>

#include "base/id.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr int kWaitSeconds = 20;  // Of one request for more of the log.

constexpr Option kBuild[] = {
    {"--rebuild", Takes::nothing, "", "Build it again although it is there."},
};

View realised_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"kind", "hash", "files", "bytes"};
    return plain_table(value, kKeys);
  }};
}

Error error_of(const Json& stand) {
  const Json error = stand.value("error", Json::object());
  return {error_kind_from(cell_of(error, "kind")), cell_of(error, "message"),
          cell_of(error, "hint")};
}

}  // namespace

constinit const std::span<const Option> kEnvironmentBuildOptions = kBuild;

Result<int> environment_build(Context& context) {
  TRY_SET(const EnvironmentName name, chosen_environment(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  std::string said;
  int64_t log_from = 0;
  // One id for all requests: they are about the same rebuild.
  const std::string rebuild = context.args().has("rebuild") ? new_run_id().value : "";
  for (bool begin = true;; begin = false) {
    TRY_SET(const Json stand, api->environment_state(workspace, name,
                                                     {.begin = begin,
                                                      .log_from = log_from,
                                                      .wait_s = begin ? 0 : kWaitSeconds,
                                                      .rebuild = rebuild}));
    TRY(write_output(STDERR_FILENO, cell_of(stand, "log")));
    TRY_SET(log_from, wire::int_member(stand, "logNext", log_from));
    const std::string progress = cell_of(stand, "progress");
    if (progress != std::exchange(said, progress) && !progress.empty()) context.detail(progress);
    const std::string state = cell_of(stand, "state");
    if (state == "failed") {
      Error error = error_of(stand).within("build environment " + name.name);
      if (!rebuild.empty()) {
        error.hint += (error.hint.empty() ? "" : " ") +
                      std::string("If it was built before, runs go on using that build.");
      }
      return std::unexpected(std::move(error));
    }
    if (state != "ready") continue;
    TRY(context.print(stand.value("realised", Json::object()), realised_view()));
    return kExitOk;
  }
}

}  // namespace trainyard::cli
