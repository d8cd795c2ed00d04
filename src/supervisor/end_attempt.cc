#include "supervisor/steps.h"

namespace trainyard::supervisor {

// The last report is sent when all that the attempt printed and wrote is acknowledged: what is read
// after it never changes.
void end_attempt(Context& context) {
  AttemptEnd end = conclude(context.facts);
  if (end.cause != EndCause::exited || end.exit_code != 0) context.log_files.want_system_log();
  const Uplink::Drained drained = context.uplink.drain();
  if (drained.outcome == Uplink::Outcome::fenced) return;
  if (drained.outcome == Uplink::Outcome::given_up) {
    end.error += (end.error.empty() ? "" : "; ") + ("logs are not whole: " + drained.why);
  }
  Report report;
  report.kind = ReportKind::ended;
  report.end = std::move(end);
  context.report(std::move(report));
  context.uplink.wait_acknowledged(context.seq);
}

}  // namespace trainyard::supervisor
