#include "supervisor/supervise.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/id.h"
#include "base/process.h"
#include "seal/box.h"
#include "supervisor/alive_lock.h"
#include "supervisor/contain.h"
#include "supervisor/context.h"
#include "supervisor/mpi_place.h"
#include "supervisor/secrets.h"
#include "supervisor/steps.h"
#include "wire/json.h"

namespace trainyard::supervisor {
namespace {

constexpr size_t kTokenMax = 256;

struct Step {
  const char* name;
  Status (*run)(Context&);
};
// What makes the ranks run.
constexpr Step kPrepare[] = {
    {"secrets", check_secrets},
    {"code", fetch_code},
    {"environment", realise_environment},
    {"folders", make_folders},
    {"files", restore_files},
    {"claim", claim_attempt},
    {"memory", limit_memory},
    {"preparation", run_preparation},
    {"nodes", meet_nodes},
    {"ranks", launch_ranks},
};

runtime::Isolation wanted_isolation() {
  const char* name = std::getenv("TRAINYARD_ISOLATION");
  const std::string_view wanted = name != nullptr ? name : "";
  if (wanted == "sweep") return runtime::Isolation::sweep;
  if (wanted == "pid_namespace") return runtime::Isolation::pid_namespace;
  return runtime::Isolation::automatic;
}

void prepare(Context& context) {
  context.report(ReportKind::preparing);
  for (const Step& step : kPrepare) {
    if (context.stops_early()) return;
    const Status status = step.run(context);
    if (context.facts.prepare_failure) return;  // It has said so itself.
    if (status) continue;
    const bool full = status.error().kind == ErrorKind::no_space;
    context.fail_prepare({full ? EndCause::no_space : EndCause::prepare_failed, 1,
                          full ? no_space_text(status.error())
                               : std::string(step.name) + ": " + status.error().message});
    return;
  }
  watch_ranks(context);
}

// Of several nodes, one that never began must not be taken for one that let the others go.
bool has_begun(const Context& context) {
  return context.facts.ranks_started || context.assignment.spec.nodes == 1;
}

void finish(Context& context) {
  context.uplink.finishing();
  if (!context.fenced()) {
    if (has_begun(context)) context.report(ReportKind::finalizing);
    if (context.facts.ranks_started) keep_outputs(context);
  }
  if (!context.fenced()) end_attempt(context);
}

// What one that died may have left running.
void end_leftovers(Context& context, const History& history) {
  if (const Status killed = runtime::kill_leftovers(history.leftovers); !killed) {
    context.log.line(killed.error().message);
  }
  remove_mpi_leftovers(context.assignment);
  static_cast<void>(runtime::MemoryGroup::adopt(memory_group_name(context.assignment)).has_value());
  if (context.assignment.spec.environment.recipe.kind == EnvironmentKind::container) {
    if (auto runtime = open_runtime(runtime_variables(context.assignment))) {
      context.environment.runtime = *std::move(runtime);
      remove_containers(context, history.leftovers.mark);
    }
  }
}

// The attempt of a supervisor that died, or that could not send its end.
void take_over(Context& context, const History& history, Purpose purpose) {
  const std::string whose = "its supervisor (pid " + std::to_string(history.supervisor) + ")";
  context.log_files.want_system_log();
  if (purpose == Purpose::carry) {
    context.log.line("taking over: " + whose + " was killed");
    end_leftovers(context, history);
  } else {
    context.log.line("collected from the shared folder: the server was away when it was done");
  }
  context.uplink.finishing();
  const SteadyTime now = context.clock.steady();
  for (const History::Told& told : history.reports) {
    // The clock of another boot says nothing about this one.
    const bool same_boot = history.leftovers.boot == boot_id();
    context.uplink.add(told.report,
                       same_boot ? told.steady : now - (context.clock.wall() - told.wall));
  }
  if (history.told(ReportKind::ended)) return confirm_end(context, context.uplink.drain());
  if (!history.conclusive(context.facts.ranks)) {
    // Who looks after this machine may know better what happened.
    const Result<std::string> evicted = read_file(context.layout.evicted());
    if (evicted) {
      context.stop(EndCause::evicted, *evicted);
    } else {
      context.facts.lost = whose + " was killed";
    }
  }
  if (!history.told(ReportKind::finalizing) && has_begun(context)) {
    context.report(ReportKind::finalizing);
  }
  if (context.facts.ranks_started && !history.outputs_settled) keep_outputs(context);
  if (!context.fenced()) end_attempt(context);
}

// Of several nodes the first one's files have the plain names.
LogFiles::Options log_options(const Assignment& assignment, const Layout& layout,
                              const Secrets& secrets) {
  LogFiles::Options options{.folder = layout.logs(), .system_log = layout.system_log()};
  options.hidden = secrets.forms();
  // What cannot be hidden is not sent.
  if (!secrets.error.empty()) options.folder.clear();
  std::string which;
  if (assignment.attempt > 1) which += "-" + std::to_string(assignment.attempt);
  if (assignment.node > 0) {
    const std::string node = "node-" + std::to_string(assignment.node);
    which += "-" + node;
    options.prefix = "logs/." + node + "/";
  }
  options.system_name = "system_logs/supervisor" + which + ".txt";
  if (!assignment.spec.preparation.empty()) options.preparation = layout.preparation_log();
  options.preparation_name = "system_logs/preparation" + which + ".txt";
  return options;
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

// Forked first, while there is one thread; they make their namespaces while we read on. One mark
// for both: whoever ends what is left of an attempt ends its preparation too.
struct Forked {
  std::unique_ptr<runtime::RankSet> ranks;
  std::unique_ptr<runtime::RankSet> preparation;  // None where the run has none.
};

Result<Forked> fork_processes(const Assignment& assignment, const Layout& layout) {
  runtime::RanksOptions options{
      .count = static_cast<size_t>(ranks_on(assignment.spec, assignment.node)),
      .folder = layout.work(),
      .mark = new_secret("mark_"),
      .isolation = wanted_isolation()};
  Forked forked;
  TRY_SET(forked.ranks, prepare_ranks(assignment, options));
  if (assignment.spec.preparation.empty()) return forked;
  options.count = 1;
  TRY_SET(forked.preparation, runtime::Ranks::prepare(options));
  return forked;
}

Result<std::string> read_token() {
  std::string line;
  char byte = 0;
  while (line.size() < kTokenMax && read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') line += byte;
  if (line.empty()) return fail(ErrorKind::invalid, "there is no token on standard input");
  return line;
}

Result<int> carry(const Layout& layout, TokenFrom token_from, Purpose purpose) {
  TRY_SET(const std::string text, read_file(layout.assignment()));
  TRY_SET(const wire::Json json, wire::parse(text));
  TRY_SET(Assignment assignment, wire::decode_assignment(json));
  if (token_from == TokenFrom::standard_input) {
    TRY_SET(assignment.token, read_token());
  }
  TRY_SET(const Fd signals, block_signals());
  Result<AliveLock> lock = AliveLock::take(layout.lock());
  if (!lock && lock.error().kind == ErrorKind::conflict) return kExitBusy;
  if (!lock) return std::unexpected(lock.error());
  TRY(make_dirs(layout.spool(), 0700));
  TRY_SET(Journal::Opened opened, Journal::open(layout.journal()));
  const History history = read_history(opened.records);
  if (purpose == Purpose::collect && !history.begun) {
    return fail(ErrorKind::invalid, "the journal is empty");
  }
  const int count = ranks_on(assignment.spec, assignment.node);
  const int first = first_rank(assignment.spec, assignment.node);

  Forked forked;
  Secrets secrets;
  const std::string instance = history.instance.empty() ? new_secret("sup_") : history.instance;
  if (history.begun && history.instance.empty()) {
    TRY(opened.journal.append(instance_record(instance)));
  }
  if (!history.begun) {
    secrets = fetch_secrets(assignment);
    TRY_SET(forked, fork_processes(assignment, layout));
    TRY(opened.journal.append(begin_record(getpid(), instance, forked.ranks->leftovers())));
  } else {
    secrets = fetch_secrets(assignment);  // To hide them in what is still to be sent.
  }
  // Nor can others of the account read it from our memory.
  const bool hides = !secrets.values.empty() || token_from == TokenFrom::standard_input;
  if (hides) seal::hide_from_core_dumps();
  lock->describe(forked.ranks ? forked.ranks->leftovers().mark : history.leftovers.mark);
  MonotoneClock clock;
  SystemLog log(clock, layout.system_log());
  LogFiles files(log_options(assignment, layout, secrets));
  std::vector<std::unique_ptr<Spool>> spools;
  std::vector<Spool*> borrowed;
  std::vector<fs::path> told;
  for (int rank = first; rank < first + count; ++rank) {
    TRY_SET(std::unique_ptr<Spool> spool, Spool::open(layout.spool(), rank));
    borrowed.push_back(spool.get());
    spools.push_back(std::move(spool));
    told.push_back(layout.records(rank));
  }
  if (!secrets.error.empty()) told.clear();  // The same as for files.
  Records records(std::move(told), log, secrets.forms(), first);
  const Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Uplink uplink(clock,
                {.address = server_address(assignment),
                 .token = assignment.token,
                 .attempt = assignment.id(),
                 .node = assignment.node,
                 .instance = instance,
                 .first_rank = first,
                 .resumed = history.begun,
                 .outage_limit = seconds(assignment.outage_s),
                 .unsent_wait = seconds(assignment.unsent_s),
                 .folder = layout.root()},
                borrowed, files, records, log, [&wake] { eventfd_write(wake.get(), 1); });
  Context context{clock, assignment, layout, opened.journal, log, files, uplink, spools};
  context.ranks = forked.ranks.get();
  context.preparation = forked.preparation.get();
  context.secrets = &secrets;
  context.wake_fd = wake.get();
  context.signal_fd = signals.get();
  context.seq = history.seq;
  context.after = history.reports.empty() ? 0 : history.reports.back().report.seq;
  context.outputs_epoch = history.outputs_epoch;
  context.facts = history.facts;
  context.facts.ranks = count;
  if (rank_count(assignment.spec) > 1) context.facts.node = node_name(assignment);
  uplink.start();
  if (history.begun) {
    take_over(context, history, purpose);
  } else {
    prepare(context);
    remove_containers(context, context.ranks->leftovers().mark);
    context.orders.reset();
    finish(context);
  }
  forked = {};
  if (uplink.news().abandoned && !context.fenced()) return kExitUnsent;
  clean_up(context);
  TRY(lock->mark_done());
  return kExitDone;
}

}  // namespace

int supervise(const fs::path& folder, TokenFrom token_from, Purpose purpose) {
  const Result<int> code = carry(Layout(folder), token_from, purpose);
  if (code) return *code;
  std::fprintf(stderr, "trainyard supervise: %s\n", code.error().message.c_str());
  return kExitFailed;
}

}  // namespace trainyard::supervisor
