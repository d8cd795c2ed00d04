#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "supervisor/console_pump.h"
#include "supervisor/contain.h"
#include "supervisor/last_lines.h"
#include "supervisor/plan_ranks.h"
#include "supervisor/steps.h"
#include "supervisor/stop_plan.h"

namespace trainyard::supervisor {
namespace {

constexpr size_t kNoticeAt = 0, kLogAt = 3;  // Of what is polled; the pipes are behind the others.

// The time in which the preparation lives: one loop over its pipes, its end, the server's news and
// our own signals.
class PreparationWatch {
 public:
  PreparationWatch(Context& context, std::vector<std::unique_ptr<Spool>>& log)
      : context_(context), pump_(*context.preparation, log, context.secrets->mask()) {}

  void run() {
    while (!dead_) {
      look_at_news();
      apply_stop();
      wait();
      read_log();
      read_events();
    }
    if (const Status rest = pump_.read_rest(); !rest) lose_disk(rest.error());
  }

  // How it ended; absent: it could not be started.
  const std::optional<runtime::RankEnded>& ended() const { return ended_; }
  const runtime::StartFailure& failure() const { return failure_; }

 private:
  void look_at_news();
  void apply_stop();
  void wait();
  void read_log();
  void read_events();
  void lose_disk(const Error& error);
  void kill_all();
  std::optional<SteadyTime> time_up() const;

  Context& context_;
  ConsolePump pump_;
  std::vector<pollfd> polled_;
  std::optional<StopPlan> plan_;
  std::optional<runtime::RankEnded> ended_;
  runtime::StartFailure failure_;
  bool killing_ = false;
  bool dead_ = false;
};

void PreparationWatch::look_at_news() {
  static_cast<void>(context_.stops_early());
  const News news = context_.uplink.news();
  if (news.fenced) {
    context_.log.line("not wanted any more: " + news.why);
    kill_all();
  }
  if (news.no_space) {
    context_.stop(EndCause::no_space, "no space left on device: the server says: " + news.why);
  }
  if (const auto up = time_up(); up && context_.clock.steady() >= *up) {
    const seconds limit(context_.assignment.spec.time_limit_s);
    context_.stop(EndCause::time_limit, "stopped at its time limit of " + format_duration(limit) +
                                            ", in its job preparation");
  }
}

void PreparationWatch::apply_stop() {
  const SteadyTime now = context_.clock.steady();
  if (context_.facts.stop && !plan_) {
    const bool at_once = context_.facts.stop->cause == EndCause::no_space;
    plan_.emplace(now, seconds(at_once ? 0 : context_.assignment.spec.grace_s));
  }
  switch (plan_ ? plan_->next(now) : StopStep::none) {
    case StopStep::none:
      return;
    case StopStep::terminate_first:
      return context_.preparation->terminate_first();
    case StopStep::terminate_group:
      return context_.preparation->terminate_group();
    case StopStep::kill_all:
      return kill_all();
  }
}

void PreparationWatch::wait() {
  polled_.assign({{context_.preparation->event_fd(), POLLIN, 0},
                  {context_.signal_fd, POLLIN, 0},
                  {context_.wake_fd, POLLIN, 0}});
  pump_.add_to(polled_);
  std::optional<SteadyTime> until = plan_ ? plan_->due() : time_up();
  timespec timeout{};
  if (until) {
    const microseconds left = std::max(microseconds(0), *until - context_.clock.steady());
    timeout = {left.count() / 1'000'000, left.count() % 1'000'000 * 1000};
  }
  ppoll(polled_.data(), polled_.size(), until ? &timeout : nullptr, nullptr);
  uint64_t count = 0;
  if (polled_[2].revents != 0 && read(context_.wake_fd, &count, sizeof count) < 0) return;
}

void PreparationWatch::read_log() {
  const Result<bool> any = pump_.read_ready(polled_, kLogAt);
  if (!any) lose_disk(any.error());
}

void PreparationWatch::read_events() {
  if (polled_[kNoticeAt].revents == 0) return;
  while (const std::optional<runtime::RankEvent> event = context_.preparation->next_event()) {
    if (const auto* failed = std::get_if<runtime::StartFailed>(&*event)) failure_ = failed->failure;
    if (const auto* ended = std::get_if<runtime::RankEnded>(&*event)) ended_ = *ended;
    const auto* dead = std::get_if<runtime::AllDead>(&*event);
    if (dead == nullptr) continue;
    dead_ = true;
    if (dead->init_lost && !ended_) ended_ = runtime::RankEnded{0, 128 + SIGKILL, SIGKILL};
    context_.facts.cpu_seconds = dead->usage.cpu_seconds;
    context_.facts.memory_peak_bytes = dead->usage.memory_peak_bytes;
  }
}

void PreparationWatch::lose_disk(const Error& error) {
  pump_.drop();
  context_.stop(EndCause::no_space, error.kind == ErrorKind::no_space
                                        ? no_space_text(error)
                                        : "its log cannot be kept: " + error.message);
}

void PreparationWatch::kill_all() {
  if (!std::exchange(killing_, true)) context_.preparation->kill_all();
}

std::optional<SteadyTime> PreparationWatch::time_up() const {
  const int64_t limit = context_.assignment.spec.time_limit_s;
  if (limit == 0) return std::nullopt;
  return *context_.prepared_since + seconds(limit);
}

// The last of them; or the last that speaks of an error: pip, for one, has hints to give after it.
std::string telling_line(std::string_view lines) {
  std::string last;
  std::string error;
  for (const std::string& line : split(lines, '\n')) {
    const std::string_view words = trim(line);
    if (words.empty()) continue;
    last = words;
    const bool speaks = words.starts_with("E: ") || words.find("rror:") != std::string_view::npos ||
                        words.find("ERROR:") != std::string_view::npos;
    if (speaks) error = words;
  }
  return error.empty() ? last : error;
}

// "job preparation ended with 3 on node n2: E: Unable to locate package"
std::string failure_text(const Context& context, const runtime::RankEnded& ended,
                         const Spool& log) {
  std::string text = "job preparation ended with " + std::to_string(ended.exit_code);
  if (ended.signal != 0) {
    const char* name = sigabbrev_np(ended.signal);
    text = "job preparation was killed by signal " + std::to_string(ended.signal) +
           (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
  }
  if (context.assignment.spec.nodes > 1) text += " on node " + context.facts.node;
  const std::string process(kPreparation);
  if (context.memory_group && context.memory_group->ran_out()) note_out_of_memory(context, process);
  const std::string note = read_file(context.layout.note(process)).value_or("");
  if (!trim(note).empty()) return text + ": " + std::string(trim(note));
  const Result<std::string> tail = log.tail();
  const std::string line = telling_line(tail ? last_lines(*tail, tail->size() == log.size()) : "");
  return line.empty() ? text : text + ": " + line;
}

}  // namespace

// Once on each node, when all is there that the ranks will find, and before any of them: the nodes
// meet behind it.
Status run_preparation(Context& context) {
  if (context.preparation == nullptr) return {};
  TRY_SET(runtime::RankCommand command, plan_preparation(context));
  TRY(make_dirs(context.layout.preparation(), 0700));
  std::vector<std::unique_ptr<Spool>> log;
  TRY_SET(auto spool, Spool::open(context.layout.preparation(), 0));
  log.push_back(std::move(spool));
  const std::string program = command.command.front();
  context.log.line("job preparation begins");
  context.watch_orders();
  context.prepared_since = context.clock.steady();
  TRY(context.preparation->start({std::move(command)}));
  PreparationWatch watch(context, log);
  watch.run();
  if (context.facts.stop || context.fenced()) return {};
  if (!watch.ended()) {
    context.fail_prepare({EndCause::prepare_failed, runtime::exit_code_of(watch.failure()),
                          "job preparation: " + runtime::explain(watch.failure(), program)});
  } else if (watch.ended()->exit_code != 0) {
    context.fail_prepare({EndCause::exited, watch.ended()->exit_code,
                          failure_text(context, *watch.ended(), *log.front())});
  } else {
    context.log.line("job preparation ended well, after " +
                     format_duration(context.clock.steady() - *context.prepared_since));
  }
  return {};
}

}  // namespace trainyard::supervisor
