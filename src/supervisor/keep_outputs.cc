#include <sys/stat.h>

#include "base/text.h"
#include "client/blobs.h"
#include "snapshot/capture.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

constexpr int kTriesMax = 3;  // Of what another try may mend; a server that is away is waited for.
constexpr milliseconds kKeepPauseFirst{50};
constexpr milliseconds kKeepPauseMax{1000};

Result<std::string> capture_and_send(Context& context) {
  struct stat status{};
  const fs::path folder = context.layout.outputs();
  if (lstat(folder.c_str(), &status) != 0) return std::string();  // The script removed it.
  if (!S_ISDIR(status.st_mode)) {
    return fail(ErrorKind::invalid, "outputs is not a folder any more");
  }
  std::error_code error;
  if (fs::is_empty(folder, error) && !error) return std::string();
  TRY_SET(const snapshot::Captured captured, snapshot::capture(folder, {.code = false}));
  for (const std::string& warning : captured.warnings) context.log.line("outputs: " + warning);
  http::Client client(context.server(), context.assignment.token);
  TRY_SET(const client::Uploaded sent, client::upload_missing(client, folder, captured));
  context.log.line("outputs: " + std::to_string(captured.tree.files()) + " files, " +
                   format_size(captured.tree.bytes()) + "; " + format_size(sent.bytes) + " sent");
  return captured.id.hex();
}

}  // namespace

void keep_outputs(Context& context) {
  if (!context.assignment.spec.keep_outputs) return;
  context.outputs_epoch = context.uplink.epoch();
  milliseconds pause = kKeepPauseFirst;
  std::optional<SteadyTime> unserved;
  for (int tries = 1;;) {
    const Result<std::string> tree = capture_and_send(context);
    if (tree) {
      context.facts.outputs = *tree;
      break;
    }
    const Error& error = tree.error();
    if (context.fenced() || context.uplink.news().abandoned) return;
    if (error.kind == ErrorKind::no_space) {
      context.stop(EndCause::no_space, no_space_text(error));
      break;
    }
    const bool may_mend =
        error.kind == ErrorKind::unavailable ? !context.gives_up(unserved) : ++tries <= kTriesMax;
    if (!may_mend) {
      context.facts.outputs_error = "outputs were not kept: " + error.message;
      context.log.line(context.facts.outputs_error);
      context.log_files.want_system_log();
      break;
    }
    context.clock.sleep_until(context.clock.steady() + pause, {});
    pause = std::min(pause * 2, kKeepPauseMax);
  }
  context.note(outputs_record(context.facts, context.outputs_epoch));
}

}  // namespace trainyard::supervisor
