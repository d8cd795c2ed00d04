#include "supervisor/context.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard::supervisor {
namespace {

constexpr milliseconds kPauseFirst{50};
constexpr milliseconds kPauseMax{1000};
constexpr seconds kUnservedMax{600};

}  // namespace

void Context::note(const std::string& record) {
  const Status written = journal.append(record);
  if (written) return;
  log.line("the journal cannot be written: " + written.error().message);
  if (written.error().kind == ErrorKind::no_space && !facts.stop) {
    // Not by stop(): that would want to be written down too.
    facts.stop = Stop{EndCause::no_space, no_space_text(written.error())};
  }
}

void Context::report(Report report) {
  const SteadyTime now = clock.steady();
  if (report.kind == ReportKind::sample) {
    report.sample = ++samples;
    uplink.add(report, now);
    return;
  }
  report.after = after;
  report.seq = after = ++seq;
  note(report_record(report, now, clock.wall()));
  uplink.add(report, now);
}

void Context::report(ReportKind kind, std::string detail) {
  Report plain;
  plain.kind = kind;
  plain.detail = std::move(detail);
  if (kind == ReportKind::running) plain.node = node_name(assignment);
  report(std::move(plain));
}

Status Context::try_until_answered(const std::function<Status()>& action) {
  std::optional<SteadyTime> unserved;
  for (milliseconds pause = kPauseFirst;; pause = std::min(pause * 2, kPauseMax)) {
    Status status = action();
    if (status || status.error().kind != ErrorKind::unavailable) return status;
    const News news = uplink.news();
    const bool over = news.outage || news.abandoned;
    if (news.fenced || news.cancel || !news.stop.empty() || over || gives_up(unserved)) {
      return status;
    }
    clock.sleep_until(clock.steady() + pause, {});
  }
}

bool Context::gives_up(std::optional<SteadyTime>& since) {
  const SteadyTime now = clock.steady();
  if (!since || uplink.unreachable()) since = now;
  return now - *since >= kUnservedMax;
}

void Context::stop(EndCause cause, std::string text) {
  if (facts.stop) return;
  log.line("stopping: " + text);
  facts.stop = Stop{cause, std::move(text)};
  note(stop_record(*facts.stop));
}

void Context::stop_by_signal(std::string_view name) {
  const std::string signal = " (SIG" + std::string(name) + ")";
  if (assignment.spec.target == kLocalQueue) {
    stop(EndCause::canceled, "its supervisor was told to stop" + signal);
  } else {
    stop(EndCause::evicted, "its node was taken away" + signal);
  }
}

void Context::stop_cut_off() {
  stop(EndCause::evicted, "the server was not reached for " +
                              format_duration(seconds(assignment.outage_s)) +
                              ", the compute's outage limit: another node may have the run now");
}

void Context::watch_orders() {
  orders = std::make_unique<OrdersWatch>(clock, server(), assignment.token, assignment.id(),
                                         assignment.node, uplink);
  if (execs) orders->open_execs(*execs);
}

void Context::open_execs(client::ExecSetting setting) {
  if (secrets != nullptr && !secrets->values.empty()) {
    // Hidden as in the console; each command's output is a stream of its own.
    setting.make_filter = [mask = secrets->mask()]() -> client::PrintFilter {
      return [own = mask](std::string_view bytes, bool last) mutable {
        std::string shown(own.feed(bytes));
        if (last) shown += own.flush();
        return shown;
      };
    };
  }
  execs = std::move(setting);
  if (orders) orders->open_execs(*execs);
}

bool Context::stops_early() {
  const News news = uplink.news();
  if (news.cancel) stop(EndCause::canceled, "canceled before it was started");
  if (!news.stop.empty()) stop(EndCause::peer_failed, news.stop);
  if (news.outage) stop_cut_off();
  signalfd_siginfo signal{};
  if (read(signal_fd, &signal, sizeof signal) == sizeof signal) stop_by_signal("TERM");
  return news.fenced || facts.stop.has_value();
}

int Context::global_rank(int local) const {
  return first_rank(assignment.spec, assignment.node) + local;
}

void Context::fail_prepare(PrepareFailure failure) {
  log.line("not started: " + failure.text);
  note(failure_record(failure, facts.ranks_started));
  facts.prepare_failure = std::move(failure);
}

http::Address Context::server() const { return server_address(assignment); }

http::Address server_address(const Assignment& assignment) {
  http::Address address;
  if (Result<http::Address> url = http::Address::parse_url(assignment.server_url)) address = *url;
  // The socket where the server's home is on this machine; the server itself may be away just now.
  const fs::path socket = assignment.server_socket;
  const bool here = !socket.empty() && access(socket.parent_path().c_str(), X_OK) == 0;
  if (here || address.host.empty()) address.unix_socket = socket;
  return address;
}

std::string no_space_text(const Error& error) {
  return "no space left on device: " + error.message;
}

}  // namespace trainyard::supervisor
