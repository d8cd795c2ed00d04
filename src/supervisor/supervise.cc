#include "supervisor/supervise.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/id.h"
#include "base/process.h"
#include "model/run.h"
#include "sdk/sdk.h"
#include "seal/box.h"
#include "supervisor/alive_lock.h"
#include "supervisor/context.h"
#include "supervisor/rank_environment.h"
#include "supervisor/secrets.h"
#include "supervisor/steps.h"
#include "wire/json.h"

extern char** environ;

namespace trainyard::supervisor {
namespace {

struct Step {
  const char* name;
  Status (*run)(Context&);
};
// What makes the ranks run.
constexpr Step kPrepare[] = {
    {"secrets", check_secrets}, {"code", fetch_code},    {"folders", make_folders},
    {"files", restore_files},   {"ranks", launch_ranks},
};

runtime::Isolation wanted_isolation() {
  const char* name = std::getenv("TRAINYARD_ISOLATION");
  const std::string_view wanted = name != nullptr ? name : "";
  if (wanted == "sweep") return runtime::Isolation::sweep;
  if (wanted == "pid_namespace") return runtime::Isolation::pid_namespace;
  return runtime::Isolation::automatic;
}

// What the engine started us with: of a job its modules, PATH and SLURM_…; nothing of Trainyard.
Variables own_variables() {
  Variables found;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view text = *pair;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.starts_with("TRAINYARD_")) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

Result<runtime::RanksOptions> plan_ranks(const Assignment& assignment, const Layout& layout,
                                         const Variables& secrets) {
  runtime::RanksOptions options{
      .folder = layout.work(), .mark = new_secret("mark_"), .isolation = wanted_isolation()};
  const int ranks = assignment.spec.processes_per_node;
  uint16_t port = 0;
  // TensorFlow's workers take the ports behind it.
  for (int tries = 0; tries == 0 || (port + ranks >= 65535 && tries < 100); ++tries) {
    TRY_SET(port, free_port());
  }
  // Without it a script that does not use it runs as well.
  const fs::path python = sdk::install(layout.python()).value_or(fs::path());
  const Variables node = own_variables();
  for (int rank = 0; rank < ranks; ++rank) {
    const RankPlace place{.rank = rank, .local_rank = rank, .master_port = port};
    Variables variables = rank_environment(
        assignment, place, {layout.work(), layout.records(rank), python.string(), node}, secrets);
    std::vector<std::string> command = rank_command(assignment.spec, variables);
    options.ranks.push_back({std::move(command), std::move(variables)});
  }
  return options;
}

// A reason to stop before anything was started.
bool stop_early(Context& context) {
  const News news = context.uplink.news();
  if (news.cancel) context.stop(EndCause::canceled, "canceled before it was started");
  signalfd_siginfo signal{};
  if (read(context.signal_fd, &signal, sizeof signal) == sizeof signal) {
    context.stop_by_signal("TERM");
  }
  return news.fenced || context.facts.stop.has_value();
}

void prepare(Context& context) {
  context.report(ReportKind::preparing);
  for (const Step& step : kPrepare) {
    if (stop_early(context)) return;
    const Status status = step.run(context);
    if (status) continue;
    const bool full = status.error().kind == ErrorKind::no_space;
    context.fail_prepare({full ? EndCause::no_space : EndCause::prepare_failed, 1,
                          full ? no_space_text(status.error())
                               : std::string(step.name) + ": " + status.error().message});
    return;
  }
  watch_ranks(context);
}

void finish(Context& context) {
  if (!context.fenced()) {
    context.report(ReportKind::finalizing);
    if (context.facts.ranks_started) keep_outputs(context);
  }
  if (!context.fenced()) end_attempt(context);
}

// The attempt of a supervisor that died.
void take_over(Context& context, const History& history) {
  const std::string whose = "its supervisor (pid " + std::to_string(history.supervisor) + ")";
  context.log.line("taking over: " + whose + " was killed");
  context.log_files.want_system_log();
  if (const Status killed = runtime::kill_leftovers(history.leftovers); !killed) {
    context.log.line(killed.error().message);
  }
  const SteadyTime now = context.clock.steady();
  for (const History::Told& told : history.reports) {
    // The clock of another boot says nothing about this one.
    const bool same_boot = history.leftovers.boot == boot_id();
    context.uplink.add(told.report,
                       same_boot ? told.steady : now - (context.clock.wall() - told.wall));
  }
  if (history.told(ReportKind::ended)) {
    if (context.uplink.drain().outcome != Uplink::Outcome::fenced) {
      context.uplink.wait_acknowledged(context.seq);
    }
    return;
  }
  if (!history.conclusive(context.facts.ranks)) context.facts.lost = whose + " was killed";
  if (!history.told(ReportKind::finalizing)) context.report(ReportKind::finalizing);
  if (context.facts.ranks_started && !history.outputs_settled) keep_outputs(context);
  if (!context.fenced()) end_attempt(context);
}

Result<Fd> block_signals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A limit on files is as a full disk: an error, not a death.
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&wanted, number);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  Fd fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno(errno, "watch signals");
  return fd;
}

Result<int> carry(const Layout& layout) {
  TRY_SET(const std::string text, read_file(layout.assignment()));
  TRY_SET(const wire::Json json, wire::parse(text));
  TRY_SET(const Assignment assignment, wire::decode_assignment(json));
  TRY_SET(const Fd signals, block_signals());
  Result<AliveLock> lock = AliveLock::take(layout.lock());
  if (!lock && lock.error().kind == ErrorKind::conflict) return kExitBusy;
  if (!lock) return std::unexpected(lock.error());
  TRY(make_dirs(layout.spool(), 0700));
  TRY_SET(Journal::Opened opened, Journal::open(layout.journal()));
  const History history = read_history(opened.records);

  // Forked first, while there is one thread; it makes its namespace while we read on.
  std::unique_ptr<runtime::Ranks> ranks;
  Secrets secrets;
  if (!history.begun) {
    secrets = fetch_secrets(assignment);
    TRY_SET(const runtime::RanksOptions options, plan_ranks(assignment, layout, secrets.values));
    TRY_SET(ranks, runtime::Ranks::prepare(options));
    TRY(opened.journal.append(begin_record(getpid(), ranks->leftovers())));
    if (!secrets.values.empty()) seal::hide_from_core_dumps();
  }
  lock->describe(ranks ? ranks->leftovers().mark : history.leftovers.mark);
  MonotoneClock clock;
  SystemLog log(clock, layout.system_log());
  const std::string suffix = assignment.attempt > 1 ? "-" + std::to_string(assignment.attempt) : "";
  LogFiles files({layout.logs(), layout.system_log(), "system_logs/supervisor" + suffix + ".txt"});
  std::vector<std::unique_ptr<Spool>> spools;
  std::vector<Spool*> borrowed;
  for (int rank = 0; rank < assignment.spec.processes_per_node; ++rank) {
    TRY_SET(std::unique_ptr<Spool> spool, Spool::open(layout.spool(), rank));
    borrowed.push_back(spool.get());
    spools.push_back(std::move(spool));
  }
  std::vector<fs::path> told;
  for (int rank = 0; rank < assignment.spec.processes_per_node; ++rank) {
    told.push_back(layout.records(rank));
  }
  Records records(std::move(told), log, secrets.forms());
  const Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Uplink uplink(
      clock,
      {server_address(assignment), assignment.token, assignment.id(), history.begun, layout.root()},
      borrowed, files, records, log, [&wake] { eventfd_write(wake.get(), 1); });
  Context context{clock, assignment, layout, opened.journal, log, files, uplink, spools};
  context.ranks = ranks.get();
  context.secrets = &secrets;
  context.wake_fd = wake.get();
  context.signal_fd = signals.get();
  context.seq = history.seq;
  context.facts = history.facts;
  context.facts.ranks = assignment.spec.processes_per_node;
  uplink.start();
  if (history.begun) {
    take_over(context, history);
  } else {
    prepare(context);
    finish(context);
  }
  ranks.reset();
  clean_up(context);
  TRY(lock->mark_done());
  return kExitDone;
}

}  // namespace

int supervise(const fs::path& folder) {
  const Result<int> code = carry(Layout(folder));
  if (code) return *code;
  std::fprintf(stderr, "trainyard supervise: %s\n", code.error().message.c_str());
  return kExitFailed;
}

}  // namespace trainyard::supervisor
