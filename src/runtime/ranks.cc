#include "runtime/ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/check.h"
#include "base/clock.h"
#include "base/file_limit.h"
#include "base/process.h"
#include "runtime/proc_table.h"

namespace trainyard::runtime {
namespace {

// A rank that prints in bursts is not stopped by the pipe. All together stay below what the kernel
// lets an ordinary user have (64 MB).
constexpr int kPipeBytesMax = 1 << 20;
constexpr int kPipeBytesAll = 1 << 25;
constexpr int kPipeBytesMin = 1 << 16;

constexpr int kSweepRounds = 500;
constexpr int kSweepPauseMs = 10;

Result<Fd> open_pipe(Fd& write_end, int bytes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  write_end = Fd(ends[1]);
  Fd read_end(ends[0]);
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  if (bytes > kPipeBytesMin) fcntl(read_end.get(), F_SETPIPE_SZ, bytes);  // Smaller will do.
  return read_end;
}

RankEvent ended(const NoticePacket& packet) {
  const int status = packet.number;
  if (WIFSIGNALED(status)) {
    return RankEnded{packet.rank, 128 + WTERMSIG(status), WTERMSIG(status)};
  }
  return RankEnded{packet.rank, WEXITSTATUS(status), 0};
}

Usage usage_of(const NoticePacket& packet) {
  return {packet.cpu_seconds, packet.memory_bytes, packet.memory_peak_bytes};
}

RankEvent event_of(const NoticePacket& packet) {
  switch (packet.notice) {
    case Notice::ready:
    case Notice::not_isolated:
      break;
    case Notice::started:
      return AllStarted{};
    case Notice::start_failed:
      return StartFailed{packet.rank, {packet.step, packet.number}};
    case Notice::rank_ended:
      return ended(packet);
    case Notice::sample:
      return usage_of(packet);
    case Notice::all_dead:
      return AllDead{usage_of(packet), false};
  }
  ENSURE(!"a notice out of turn");
  return AllDead{};
}

void wait_for_end(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Without a namespace init is let do its work: it knows its descendants better than a sweep.
void end_init(int pidfd, Isolation isolation) {
  constexpr int kPatienceMs = 5000;
  pollfd ended{pidfd, POLLIN, 0};
  if (isolation == Isolation::sweep && poll(&ended, 1, kPatienceMs) > 0) return;
  syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  poll(&ended, 1, kPatienceMs);
}

}  // namespace

Result<std::unique_ptr<Ranks>> Ranks::prepare(const RanksOptions& options) {
  std::unique_ptr<Ranks> ranks(new Ranks());
  ranks->leftovers_.mark = options.mark;
  ranks->leftovers_.boot = boot_id();
  // Each rank takes four descriptors here; the usual soft limit of 1024 is soon reached.
  const rlimit files = raise_file_limit().given;
  if (options.isolation != Isolation::automatic) {
    TRY(ranks->fork(options.isolation, options, files));
    return ranks;
  }
  if (ranks->fork(Isolation::pid_namespace, options, files)) return ranks;
  TRY(ranks->fork(Isolation::sweep, options, files));
  return ranks;
}

Ranks::~Ranks() {
  if (leftovers_.init == 0) return;
  // Its death is the namespace's; without one, the end of the socket makes init kill the rest
  // first.
  if (!over_ && leftovers_.isolation == Isolation::pid_namespace) kill(leftovers_.init, SIGKILL);
  socket_.reset();
  wait_for_end(leftovers_.init);
}

Status Ranks::open_pipes(size_t count) {
  outputs_.clear();
  const int share = kPipeBytesAll / static_cast<int>(2 * std::max<size_t>(count, 1));
  int bytes = kPipeBytesMax;
  while (bytes > share) bytes /= 2;
  for (size_t i = 0; i < count; ++i) {
    Pipes& ends = write_ends_.emplace_back();
    TRY_SET(Fd out, open_pipe(ends.out, bytes));
    TRY_SET(Fd err, open_pipe(ends.err, bytes));
    outputs_.push_back({std::move(out), std::move(err)});
  }
  return {};
}

Status Ranks::fork(Isolation isolation, const RanksOptions& options, const rlimit& files) {
  write_ends_.clear();
  TRY(open_pipes(options.count));
  TRY_SET(handover_, open_handover());
  TRY_SET(const Fd null, open_file("/dev/null", O_RDONLY));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail_errno(errno, "make a socket pair");
  }
  socket_ = Fd(ends[0]);
  Fd theirs(ends[1]);
  InitPlan plan{.isolation = isolation,
                .socket = theirs.get(),
                .null = null.get(),
                .handover = handover_.get(),
                .folder = options.folder,
                .files = files};
  for (const Pipes& rank : write_ends_) plan.ranks.push_back({rank.out.get(), rank.err.get()});
  TRY_SET(const pid_t pid, fork_init(plan));
  theirs.reset();
  write_ends_.clear();
  return wait_until_ready(pid, isolation);
}

Status Ranks::wait_until_ready(pid_t pid, Isolation isolation) {
  NoticePacket packet{.notice = Notice::not_isolated};
  const ssize_t got = recv(socket_.get(), &packet, sizeof packet, 0);
  if (got != sizeof packet || packet.notice != Notice::ready) {
    wait_for_end(pid);
    return fail_errno(packet.number, "make a PID namespace");
  }
  leftovers_.isolation = isolation;
  leftovers_.init = pid;
  TRY_SET(const ProcessRow row, read_process(pid));
  leftovers_.init_start_ticks = row.start_ticks;
  return {};
}

Ranks::Outputs Ranks::take_outputs(int rank) {
  return std::move(outputs_.at(static_cast<size_t>(rank)));
}

Status Ranks::start(std::vector<RankCommand> commands) {
  ENSURE(commands.size() == outputs_.size());
  for (RankCommand& each : commands) {
    each.environment[std::string(kMarkVariable)] = leftovers_.mark;
  }
  TRY(hand_over(handover_.get(), commands));
  handover_.reset();
  order(Order::start);
  return {};
}

void Ranks::terminate_first() { order(Order::terminate_first); }
void Ranks::terminate_group() { order(Order::terminate_group); }
void Ranks::kill_all() { order(Order::kill_all); }

void Ranks::order(Order order) {
  const OrderPacket packet{order};
  // Init may have gone meanwhile; next_event() then says so.
  send(socket_.get(), &packet, sizeof packet, MSG_NOSIGNAL);
}

std::optional<RankEvent> Ranks::next_event() {
  if (over_) return std::nullopt;
  NoticePacket packet;
  const ssize_t got = recv(socket_.get(), &packet, sizeof packet, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got != sizeof packet) return init_lost();
  over_ = packet.notice == Notice::all_dead;
  return event_of(packet);
}

RankEvent Ranks::init_lost() {
  over_ = true;
  // In a namespace it is not gone before everything else is.
  wait_for_end(std::exchange(leftovers_.init, 0));
  if (leftovers_.isolation == Isolation::sweep) {
    static_cast<void>(kill_leftovers(leftovers_).has_value());
  }
  return AllDead{{}, true};
}

Status kill_leftovers(const Leftovers& leftovers) {
  const auto is_init = [&] {
    const Result<ProcessRow> row = read_process(leftovers.init);
    return row && row->start_ticks == leftovers.init_start_ticks;
  };
  if (leftovers.init > 0 && leftovers.boot == boot_id() && is_init()) {
    const Result<Fd> init = open_pidfd(leftovers.init);
    // Asked again now that the pid cannot be given to another.
    if (init && is_init()) end_init(init->get(), leftovers.isolation);
  }
  for (int round = 0; round < kSweepRounds; ++round) {
    const std::vector<pid_t> left = processes_with_variable(kMarkVariable, leftovers.mark);
    if (left.empty()) return {};
    for (const pid_t pid : left) kill(pid, SIGKILL);
    poll(nullptr, 0, kSweepPauseMs);
  }
  return fail(ErrorKind::unavailable, "processes of the attempt cannot be killed");
}

}  // namespace trainyard::runtime
