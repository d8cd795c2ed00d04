#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "gpu/gpus.h"
#include "supervisor/console_pump.h"
#include "supervisor/container_usage.h"
#include "supervisor/distribution.h"
#include "supervisor/steps.h"
#include "supervisor/stop_plan.h"

namespace trainyard::supervisor {
namespace {

constexpr seconds kSampleEvery{5};         // It is the heartbeat too.
constexpr milliseconds kOrdersAfter{500};  // Shorter runs hear of a cancel by their reports.
// A container's figures go with it: so much of its last seconds is not known.
constexpr milliseconds kContainersEvery{250};
constexpr int kContainersShare = 100;      // Looking takes at most a hundredth of a core.
constexpr milliseconds kMemoryEvery{250};  // Where the kernel does not keep the limit.
constexpr int kMemoryShare = 50;           // Looking takes at most a fiftieth of a core.
constexpr int kOwnSignalMs = 300;
constexpr int kOthersSignalMs = 100;

// The time in which ranks live: one loop over their pipes, their ends, the server's news and our
// own signals.
class RankWatch {
 public:
  explicit RankWatch(Context& context)
      : context_(context),
        pump_(*context.ranks, context.spools,
              context.secrets != nullptr ? context.secrets->mask() : seal::Mask()) {
    if (!context.assignment.gpus.empty()) gpus_.emplace(gpu::Gpus::open());
    const container::Runtime* runtime = context.environment.runtime.get();
    if (runtime == nullptr || runtime->needs_root()) return;
    std::vector<fs::path> files;
    for (int rank = 0; rank < context.facts.ranks; ++rank) {
      files.push_back(context.layout.process(std::to_string(context.global_rank(rank))));
    }
    containers_.emplace(files);
  }

  void run() {
    while (!dead_) {
      apply_stop();
      wait();
      read_signals();
      read_news();
      read_console();
      read_events();
      look_at_time();
    }
    finish_console();
  }

 private:
  void wait();
  void read_signals();
  void await_own_signal();
  void read_news();
  void read_console();
  void read_events();
  void look_at_time();
  void apply_stop();
  void finish_console();

  void on(const runtime::AllStarted&);
  void on(const runtime::StartFailed& failed);
  void on(const runtime::RankEnded& ended);
  void on(const runtime::Usage& usage);
  void on(const runtime::AllDead& dead);
  void on(const runtime::LaunchFailed& failed);
  void on(const runtime::StoppedElsewhere&);

  void report_failure(const RankExit& exit);
  bool is_server(int rank) const;
  void look_at_workers();
  void look_at_containers(SteadyTime now);
  void look_at_memory(SteadyTime now);
  runtime::Usage with_containers(const runtime::Usage& usage) const;
  void dismiss_servers();
  void lose_disk(const Error& error);
  void kill_all();
  std::optional<SteadyTime> next_time() const;
  std::optional<SteadyTime> time_up() const;

  Context& context_;
  ConsolePump pump_;
  std::vector<pollfd> polled_;
  std::optional<StopPlan> plan_;
  bool killing_ = false;
  bool dead_ = false;
  bool done_ = false;       // Of this node only parameter servers are left.
  bool dismissed_ = false;  // And they are no longer needed.
  bool settled_ = false;    // It runs for longer than a moment.
  std::optional<SteadyTime> running_since_;
  std::optional<SteadyTime> sample_at_;
  std::optional<runtime::Usage> usage_;
  std::optional<gpu::Gpus> gpus_;             // Where the attempt has any.
  std::optional<ContainerUsage> containers_;  // Where an engine has the ranks.
  std::optional<SteadyTime> containers_at_;
  std::optional<SteadyTime> memory_at_;
};

constexpr size_t kEvents = 0, kSignals = 1, kNews = 2, kPipes = 3;

void RankWatch::wait() {
  polled_.assign({{context_.ranks->event_fd(), POLLIN, 0},
                  {context_.signal_fd, POLLIN, 0},
                  {context_.wake_fd, POLLIN, 0}});
  pump_.add_to(polled_);
  timespec timeout{};
  const std::optional<SteadyTime> until = next_time();
  if (until) {
    const microseconds left = std::max(microseconds(0), *until - context_.clock.steady());
    timeout = {left.count() / 1'000'000, left.count() % 1'000'000 * 1000};
  }
  for (pollfd& each : polled_) each.revents = 0;
  ppoll(polled_.data(), polled_.size(), until ? &timeout : nullptr, nullptr);
}

void RankWatch::read_signals() {
  if (polled_[kSignals].revents == 0) return;
  signalfd_siginfo signal{};
  if (read(context_.signal_fd, &signal, sizeof signal) != sizeof signal) return;
  // Slurm signals the processes of a job one after the other: the ranks' first process is to have
  // its own before we order it to pass ours on.
  poll(nullptr, 0, kOthersSignalMs);
  const char* name = sigabbrev_np(static_cast<int>(signal.ssi_signo));
  context_.stop_by_signal(name != nullptr ? name : "?");
}

void RankWatch::read_news() {
  if (polled_[kNews].revents == 0) return;
  uint64_t count = 0;
  if (read(context_.wake_fd, &count, sizeof count) < 0) return;
  const News news = context_.uplink.news();
  if (news.fenced) {
    context_.log.line("not wanted any more: " + news.why);
    kill_all();
  }
  if (news.cancel) context_.stop(EndCause::canceled, "canceled");
  if (news.outage) context_.stop_cut_off();
  // Where a rank of ours failed too, the server decides whose failure came first.
  if (!news.stop.empty() && first_failure(context_.facts) == nullptr) {
    context_.stop(EndCause::peer_failed, news.stop);
  }
  if (news.done && done_) dismiss_servers();
  if (news.no_space && !context_.facts.stop) {
    context_.stop(EndCause::no_space, "no space left on device: the server says: " + news.why);
    kill_all();
  }
}

void RankWatch::read_console() {
  const Result<bool> any = pump_.read_ready(polled_, kPipes);
  if (!any) lose_disk(any.error());
  if (any && *any) context_.uplink.console_grew();
}

void RankWatch::read_events() {
  if (polled_[kEvents].revents == 0) return;
  while (const std::optional<runtime::RankEvent> event = context_.ranks->next_event()) {
    std::visit([&](const auto& each) { on(each); }, *event);
  }
}

void RankWatch::on(const runtime::AllStarted&) {
  context_.report(ReportKind::running);
  running_since_ = context_.clock.steady();
  if (containers_) containers_at_ = *running_since_ + kContainersEvery;
  if (context_.memory_limit > 0 && !context_.memory_group) memory_at_ = running_since_;
}

void RankWatch::on(const runtime::StartFailed& failed) {
  // Ranks before it may have run a little.
  context_.facts.ranks_started = failed.rank > 0;
  const std::vector<std::string>& command = context_.assignment.spec.command;
  context_.fail_prepare({EndCause::prepare_failed, runtime::exit_code_of(failed.failure),
                         runtime::explain(failed.failure, command.empty() ? "" : command.front())});
}

// Slurm signals the processes of a job one after the other: a rank may be gone before its signal
// reaches us, and then it did not fail by itself.
void RankWatch::await_own_signal() {
  pollfd own{.fd = context_.signal_fd, .events = POLLIN, .revents = 0};
  if (poll(&own, 1, kOwnSignalMs) <= 0) return;
  polled_[kSignals].revents = own.revents;
  read_signals();
}

void RankWatch::on(const runtime::RankEnded& ended) {
  if (ended.signal == SIGTERM && !plan_ && !context_.facts.stop) await_own_signal();
  RankExit exit{context_.global_rank(ended.rank), ended.exit_code, ended.signal};
  if (dismissed_ && is_server(ended.rank)) {
    // However it took our word.
    context_.log.line("parameter server, rank " + std::to_string(exit.rank) + ": dismissed");
    exit = {exit.rank, 0, 0};
  }
  const bool first = first_failure(context_.facts) == nullptr;
  if (exit.exit_code != 0 && context_.memory_group && context_.memory_group->ran_out()) {
    note_out_of_memory(context_, std::to_string(exit.rank));
  }
  context_.note(exit_record(exit));
  context_.log.line(describe(exit));
  context_.facts.exits.push_back(exit);
  if (first && first_failure(context_.facts) != nullptr) report_failure(exit);
  const auto ended_count = static_cast<int>(context_.facts.exits.size());
  // The others would wait for it for ever.
  if (exit.exit_code != 0 && !plan_ && ended_count < context_.facts.ranks) {
    plan_.emplace(context_.clock.steady(), seconds(context_.assignment.spec.grace_s));
  }
  look_at_workers();
}

bool RankWatch::is_server(int rank) const {
  return task_of(context_.assignment.spec, context_.assignment.node, rank).server;
}

// Parameter servers serve for ever; a run is done when its workers are. Of several nodes the server
// knows when the last of them is.
void RankWatch::look_at_workers() {
  const RunSpec& spec = context_.assignment.spec;
  const std::vector<RankExit>& exits = context_.facts.exits;
  if (spec.parameter_servers == 0 || plan_ || context_.facts.stop || done_) return;
  if (exits.size() == static_cast<size_t>(context_.facts.ranks)) return;
  const auto workers = std::ranges::count_if(
      exits, [&](const RankExit& exit) { return !is_server(exit.rank - context_.global_rank(0)); });
  if (workers < spec.processes_per_node) return;
  done_ = true;
  if (spec.nodes == 1) return dismiss_servers();
  context_.report(ReportKind::finalizing, "its workers have ended");
  if (context_.uplink.news().done) dismiss_servers();
}

void RankWatch::dismiss_servers() {
  if (plan_ || std::exchange(dismissed_, true)) return;
  context_.log.line("all workers have ended: parameter servers are told to end");
  plan_.emplace(context_.clock.steady(), seconds(context_.assignment.spec.grace_s));
}

// So that the other nodes need not wait for this one to end.
void RankWatch::report_failure(const RankExit& exit) {
  if (context_.assignment.spec.nodes == 1) return;
  Report report;
  report.kind = ReportKind::rank_failed;
  report.node = context_.facts.node;
  report.exit = exit;
  context_.report(std::move(report));
}

void RankWatch::on(const runtime::LaunchFailed& failed) {
  if (context_.facts.stop) return;
  if (failed.before) context_.facts.ranks_started = false;
  context_.fail_prepare(
      {failed.before ? EndCause::prepare_failed : EndCause::exited, failed.exit_code, failed.text});
  if (!plan_) plan_.emplace(context_.clock.steady(), seconds(context_.assignment.spec.grace_s));
}

void RankWatch::on(const runtime::StoppedElsewhere&) {
  if (first_failure(context_.facts) != nullptr) return;
  context_.stop(EndCause::peer_failed, "MPI has ended the ranks of this node");
}

void RankWatch::on(const runtime::Usage& usage) {
  usage_ = usage;
  if (!sample_at_) sample_at_ = context_.clock.steady();  // The first at once.
}

runtime::Usage RankWatch::with_containers(const runtime::Usage& usage) const {
  return containers_ ? containers_->added_to(usage) : usage;
}

void RankWatch::look_at_containers(SteadyTime now) {
  containers_->sample();
  const SteadyTime after = context_.clock.steady();
  containers_at_ =
      after + std::max<microseconds>(kContainersEvery, (after - now) * kContainersShare);
}

// As the kernel would: at once, with SIGKILL.
void RankWatch::look_at_memory(SteadyTime now) {
  const pid_t init = context_.ranks->leftovers().init;
  if (runtime::memory_below(init, context_.memory_limit) > context_.memory_limit) {
    for (int rank = 0; rank < context_.facts.ranks; ++rank) {
      note_out_of_memory(context_, std::to_string(context_.global_rank(rank)));
    }
    memory_at_.reset();
    kill_all();
    return;
  }
  const SteadyTime after = context_.clock.steady();
  memory_at_ = after + std::max<microseconds>(kMemoryEvery, (after - now) * kMemoryShare);
}

void RankWatch::on(const runtime::AllDead& dead) {
  dead_ = true;
  if (dead.init_lost && !killing_) {
    context_.log.line("the first process of the attempt was killed, and its ranks with it");
    for (int rank = 0; rank < context_.facts.ranks; ++rank) {
      const auto& exits = context_.facts.exits;
      const bool known = std::any_of(exits.begin(), exits.end(), [&](const RankExit& exit) {
        return exit.rank == context_.global_rank(rank);
      });
      if (!known) on(runtime::RankEnded{rank, 128 + SIGKILL, SIGKILL});
    }
  }
  const runtime::Usage usage =
      with_containers(dead.init_lost ? usage_.value_or(runtime::Usage{}) : dead.usage);
  context_.note(dead_record(usage));
  context_.facts.all_dead = true;
  context_.facts.cpu_seconds = usage.cpu_seconds;
  context_.facts.memory_peak_bytes = usage.memory_peak_bytes;
}

void RankWatch::look_at_time() {
  const SteadyTime now = context_.clock.steady();
  if (const auto up = time_up(); up && now >= *up) {
    const seconds limit(context_.assignment.spec.time_limit_s);
    context_.stop(EndCause::time_limit, "stopped at its time limit of " + format_duration(limit));
  }
  if (running_since_ && !settled_ && now >= *running_since_ + kOrdersAfter) {
    settled_ = true;
    if (!context_.orders) context_.watch_orders();
    context_.log_files.want_system_log();
  }
  if (containers_at_ && now >= *containers_at_) look_at_containers(now);
  if (memory_at_ && now >= *memory_at_ && !dead_) look_at_memory(now);
  if (sample_at_ && now >= *sample_at_) {
    const runtime::Usage usage = with_containers(*usage_);
    Report sample;
    sample.kind = ReportKind::sample;
    sample.cpu_seconds = usage.cpu_seconds;
    sample.memory_bytes = usage.memory_bytes;
    sample.memory_peak_bytes = usage.memory_peak_bytes;
    if (gpus_) {
      for (const gpu::Usage& gpu : gpus_->usage(context_.assignment.gpus)) {
        sample.gpus.push_back({gpu.index, gpu.utilization, gpu.memory_used_bytes, gpu.power_watts});
      }
    }
    context_.report(std::move(sample));
    sample_at_ = now + kSampleEvery;
  }
}

void RankWatch::apply_stop() {
  const SteadyTime now = context_.clock.steady();
  if (context_.facts.stop && !plan_) {
    const bool at_once = context_.facts.stop->cause == EndCause::no_space;
    plan_.emplace(now, seconds(at_once ? 0 : context_.assignment.spec.grace_s));
  }
  if (!plan_) return;
  switch (plan_->next(now)) {
    case StopStep::none:
      return;
    case StopStep::terminate_first:
      context_.ranks->terminate_first();
      return;
    case StopStep::terminate_group:
      context_.ranks->terminate_group();
      return;
    case StopStep::kill_all:
      kill_all();
      return;
  }
}

void RankWatch::kill_all() {
  if (std::exchange(killing_, true)) return;
  context_.ranks->kill_all();
}

void RankWatch::lose_disk(const Error& error) {
  pump_.drop();
  context_.stop(EndCause::no_space, error.kind == ErrorKind::no_space
                                        ? no_space_text(error)
                                        : "the console cannot be kept: " + error.message);
  kill_all();
}

void RankWatch::finish_console() {
  if (const Status rest = pump_.read_rest(); !rest) lose_disk(rest.error());
  context_.uplink.console_grew();
}

std::optional<SteadyTime> RankWatch::time_up() const {
  const int64_t limit = context_.assignment.spec.time_limit_s;
  if (!running_since_ || limit == 0) return std::nullopt;
  return context_.prepared_since.value_or(*running_since_) + seconds(limit);
}

std::optional<SteadyTime> RankWatch::next_time() const {
  std::optional<SteadyTime> next;
  const auto consider = [&](std::optional<SteadyTime> time) {
    if (time && (!next || *time < *next)) next = time;
  };
  if (plan_) consider(plan_->due());
  consider(sample_at_);
  consider(containers_at_);
  consider(memory_at_);
  if (!context_.facts.stop) consider(time_up());
  if (running_since_ && !settled_) consider(*running_since_ + kOrdersAfter);
  return next;
}

}  // namespace

void watch_ranks(Context& context) { RankWatch(context).run(); }

}  // namespace trainyard::supervisor
