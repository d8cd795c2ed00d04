#include "base/text.h"
#include "container/run_container.h"
#include "supervisor/last_lines.h"
#include "supervisor/missing_module.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

struct ConsoleEnd {
  std::string lines;
  std::string exception;
};

ConsoleEnd console_end(const Context& context, const RankExit& failed) {
  const auto local = static_cast<size_t>(failed.rank - context.global_rank(0));
  if (local >= context.spools.size()) return {};
  const Spool& spool = *context.spools[local];
  const Result<std::string> tail = spool.tail();
  if (!tail) return {};
  // Python exits with 1 of an exception.
  return {last_lines(*tail, tail->size() == spool.size()),
          failed.exit_code == 1 ? python_exception(*tail) : std::string()};
}

// What a rank's exit code does not say: its container was out of memory, or there was none; nor a
// view of the machine.
std::string note_of_failure(const Context& context) {
  const RankExit* failed = first_failure(context.facts);
  if (failed == nullptr) return {};
  const std::string text =
      read_file(context.layout.note(std::to_string(failed->rank))).value_or("");
  std::string note(trim(text));
  if (note.empty()) return missing_module_advice(context.facts.last_lines);
  if (!note.ends_with(container::kBubblewrapFailed)) return note;
  for (const std::string& line : split(context.facts.last_lines, '\n')) {
    if (line.starts_with(container::kBubblewrapSays)) return note + ": " + line;
  }
  return note;
}

// The warning about files that were not kept. Only for runs that ended by themselves: a canceled
// run's half-written files are not missed.
std::string unkept_files(const Context& context, const AttemptEnd& end) {
  const bool by_itself = end.cause == EndCause::exited && !context.facts.exits.empty();
  if (!by_itself || !context.files_before || !context.assignment.spec.keep_outputs) return {};
  const auto after = working_files(context.layout.work());
  return after ? unkept_warning(*context.files_before, *after) : std::string();
}

}  // namespace

// The last report is sent when all that the attempt printed and wrote is acknowledged: what is read
// after it never changes.
void end_attempt(Context& context) {
  const AttemptEnd known = conclude(context.facts);
  if (known.cause != EndCause::exited || known.exit_code != 0) context.log_files.want_system_log();
  Uplink::Drained drained = context.uplink.drain();
  using enum Uplink::Outcome;
  if (drained.outcome == fenced || drained.outcome == abandoned) return;
  if (drained.outcome == given_up) {
    context.facts.logs_error = "logs are not whole: " + drained.why;
  }
  if (const RankExit* failed = first_failure(context.facts)) {
    ConsoleEnd console = console_end(context, *failed);
    context.facts.last_lines = std::move(console.lines);
    context.facts.exception = std::move(console.exception);
  }
  context.facts.note = note_of_failure(context);
  Report report;
  report.kind = ReportKind::ended;
  report.end = conclude(context.facts);
  if (std::string warning = unkept_files(context, report.end); !warning.empty()) {
    report.end.warnings.push_back(std::move(warning));
  }
  context.report(std::move(report));
  confirm_end(context, std::move(drained));
}

void confirm_end(Context& context, Uplink::Drained drained) {
  using enum Uplink::Outcome;
  while (drained.outcome != fenced && drained.outcome != abandoned) {
    // The same tree once more: what the server still has of it is not sent.
    const bool doubted = context.outputs_epoch != drained.epoch;
    if (doubted && !context.facts.outputs.empty()) keep_outputs(context);
    const auto ended = context.uplink.wait_ended(context.seq, drained.epoch);
    if (ended != Uplink::EndOutcome::restarted) return;
    context.log.line("the server was started again: what it does not have is sent again");
    drained = context.uplink.drain();
  }
}

}  // namespace trainyard::supervisor
