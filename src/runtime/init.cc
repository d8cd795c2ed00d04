#include "runtime/init.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "runtime/proc_table.h"

namespace trainyard::runtime {
namespace {

constexpr int64_t kSampleEveryMs = 1000;
constexpr int64_t kSampleShare = 100;  // Sampling takes at most a hundredth of a core.
constexpr int kKillAgainMs = 10;
constexpr rlim_t kFdsMax = 65536;  // Looked at one by one, where the kernel is old.

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void write_text(const char* path, const std::string& text) {
  const Fd fd(open(path, O_WRONLY | O_CLOEXEC));
  // A failure shows when the next step is refused.
  if (fd && write(fd.get(), text.data(), text.size()) < 0) return;
}

// A process without privileges gets its namespaces by way of a user namespace, in which every id is
// what it was.
void map_ids(unsigned uid, unsigned gid) {
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1\n");
  write_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1\n");
}

// Our mounts stay ours, and /proc shows the new namespace: otherwise a program that looks itself up
// there by its getpid() finds another.
bool mount_proc() {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return false;
  return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

// Also on a kernel that does not know close_range(2), before 5.9.
void close_between(unsigned first, unsigned last, unsigned limit) {
  if (close_range(first, last, 0) == 0) return;
  for (unsigned fd = first; fd <= last && fd < limit; ++fd) close(static_cast<int>(fd));
}

// Keeps the plan's descriptors and our stderr. The supervisor's lock must not outlive it in us.
void close_others(const InitPlan& plan) {
  std::vector<unsigned> kept{2, static_cast<unsigned>(plan.socket),
                             static_cast<unsigned>(plan.null),
                             static_cast<unsigned>(plan.handover)};
  for (const InitPlan::Rank& rank : plan.ranks) {
    kept.push_back(static_cast<unsigned>(rank.out));
    kept.push_back(static_cast<unsigned>(rank.err));
  }
  std::sort(kept.begin(), kept.end());
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const auto limit = static_cast<unsigned>(std::min<rlim_t>(files.rlim_cur, kFdsMax));
  unsigned next = 3;
  for (const unsigned fd : kept) {
    if (fd > next) close_between(next, fd - 1, limit);
    next = std::max(next, fd + 1);
  }
  close_between(next, ~0U, limit);
}

// A scheduler that signals all processes of its job has signalled the ranks too, so that they need
// no second SIGTERM. Ours is pending for good, since we block it.
bool was_signalled() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

pid_t clone_process(unsigned long flags) {
  // The raw call: glibc's fork() takes no flags. We have one thread, so no lock of its is held.
  return static_cast<pid_t>(
      syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

}  // namespace

Result<pid_t> fork_init(const InitPlan& plan) {
  const unsigned uid = geteuid();
  const unsigned gid = getegid();
  const bool isolated = plan.isolation == Isolation::pid_namespace;
  unsigned long flags = isolated ? CLONE_NEWPID | CLONE_NEWNS : 0;
  pid_t pid = clone_process(flags);
  if (pid < 0 && isolated && errno == EPERM) {
    flags |= CLONE_NEWUSER;
    pid = clone_process(flags);
  }
  if (pid < 0) return fail_errno(errno, "start the attempt's first process");
  if (pid > 0) return pid;

  // Killed with the supervisor: the kernel then kills all of the namespace. Without one we must
  // live on to do that ourselves; the end of the socket tells us.
  if (isolated) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if ((flags & CLONE_NEWUSER) != 0) map_ids(uid, gid);
  if (isolated && !mount_proc()) {
    NoticePacket packet{.notice = Notice::not_isolated, .number = errno};
    send(plan.socket, &packet, sizeof packet, MSG_NOSIGNAL);
    _exit(1);
  }
  if (!isolated) prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "trainyard-init");
  setsid();
  close_others(plan);
  Init(plan).run();
}

void Init::run() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const int ended = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  tell({.notice = Notice::ready});
  sample_at_ms_ = now_ms() + kSampleEveryMs;
  for (;;) {
    pollfd polled[2] = {{plan_.socket, POLLIN, 0}, {ended, POLLIN, 0}};
    const int64_t wait_ms = started_ ? std::max<int64_t>(0, sample_at_ms_ - now_ms()) : -1;
    poll(polled, 2, static_cast<int>(wait_ms));
    if (polled[0].revents != 0) obey();
    if (polled[1].revents != 0) {
      signalfd_siginfo ignored;
      while (read(ended, &ignored, sizeof ignored) > 0) {
      }
      reap();
    }
    if (started_ && !any_running()) finish();
    if (started_ && now_ms() >= sample_at_ms_) sample();
  }
}

void Init::obey() {
  OrderPacket packet;
  const ssize_t got = recv(plan_.socket, &packet, sizeof packet, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got != sizeof packet) finish();  // The supervisor is dead.
  switch (packet.order) {
    case Order::start:
      start_ranks();
      return;
    case Order::terminate_first:
      if (!was_signalled()) terminate_first();
      return;
    case Order::terminate_group:
      terminate_followers();
      return;
    case Order::kill_all:
      finish();
  }
}

void Init::start_ranks() {
  const auto on_death = plan_.isolation == Isolation::sweep ? Program::OnParentDeath::die
                                                            : Program::OnParentDeath::live;
  const StartFailure unmade = make_programs();
  for (size_t i = 0; i < plan_.ranks.size(); ++i) {
    const Program::Streams streams{plan_.null, plan_.ranks[i].out, plan_.ranks[i].err};
    const Program::Started started = unmade.step != StartStep::none
                                         ? Program::Started{0, unmade}
                                         : programs_[i]->start(streams, plan_.files, on_death);
    if (started.failure.step != StartStep::none) {
      tell({.notice = Notice::start_failed,
            .rank = static_cast<int32_t>(ranks_.size()),
            .number = started.failure.number,
            .step = started.failure.step});
      finish();
    }
    ranks_.push_back({started.pid, true});
  }
  // Only the ranks hold the pipes now: the supervisor reads their end when the last of them closes.
  for (const InitPlan::Rank& rank : plan_.ranks) {
    close(rank.out);
    close(rank.err);
  }
  started_ = true;
  sample_at_ms_ = now_ms() + kSampleEveryMs;
  tell({.notice = Notice::started});
}

// We have one thread, as the supervisor had when it forked us: memory may be had.
StartFailure Init::make_programs() {
  const Result<std::vector<RankCommand>> ranks = take_handover(plan_.handover);
  close(plan_.handover);
  if (!ranks || ranks->size() != plan_.ranks.size()) return {StartStep::exec, EIO};
  // Only with mounts of our own: others would see it too.
  const bool shares = !ranks->empty() && !ranks->front().shared.shelf.empty();
  if (shares && plan_.isolation == Isolation::pid_namespace) {
    static_cast<void>(protect_shared(ranks->front().shared));
  }
  for (const RankCommand& rank : *ranks) {
    programs_.push_back(std::make_unique<Program>(rank.command, rank.environment, plan_.folder));
  }
  return {};
}

void Init::reap() {
  int status = 0;
  for (;;) {
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    reap_one(pid, status);
  }
}

void Init::reap_one(pid_t pid, int status) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].pid != pid || !ranks_[i].running) continue;
    ranks_[i].running = false;
    tell({.notice = Notice::rank_ended, .rank = static_cast<int32_t>(i), .number = status});
  }
}

void Init::sample() {
  const int64_t begun = now_ms();
  live_cpu_seconds_ = 0;
  memory_bytes_ = 0;
  for (const ProcessRow& row : descendants(read_processes(), getpid())) {
    live_cpu_seconds_ += row.cpu_seconds;
    memory_bytes_ += row.memory_bytes;
  }
  memory_peak_bytes_ = std::max(memory_peak_bytes_, memory_bytes_);
  tell(usage(Notice::sample));
  const int64_t now = now_ms();
  sample_at_ms_ = now + std::max(kSampleEveryMs, (now - begun) * kSampleShare);
}

void Init::kill_everything() {
  const pid_t self = getpid();
  for (;;) {
    if (plan_.isolation == Isolation::pid_namespace) {
      kill(-1, SIGKILL);
    } else {
      const pid_t own_group = getpgrp();
      for (const ProcessRow& row : descendants(read_processes(), self)) {
        // The group too: it takes in at once what is forked while we look.
        if (row.group > 1 && row.group != own_group) kill(-row.group, SIGKILL);
        kill(row.pid, SIGKILL);
      }
    }
    // A process always hangs under one of our children, so no child means no process.
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid < 0 && errno == ECHILD) return;
      if (pid <= 0) break;
      reap_one(pid, status);
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const timespec again{0, kKillAgainMs * 1'000'000L};
    sigtimedwait(&child, nullptr, &again);
  }
}

void Init::finish() {
  kill_everything();
  live_cpu_seconds_ = 0;
  memory_bytes_ = 0;
  tell(usage(Notice::all_dead));
  _exit(0);
}

void Init::terminate_first() {
  for (const Rank& rank : ranks_) {
    if (rank.running) kill(rank.pid, SIGTERM);
  }
}

void Init::terminate_followers() {
  for (const Rank& rank : ranks_) {
    if (rank.running) signal_followers(rank.pid, SIGTERM);
  }
}

bool Init::any_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
}

void Init::tell(NoticePacket packet) const {
  // A sample may be lost to a supervisor that does not read; all else waits for it.
  const int flags = packet.notice == Notice::sample ? MSG_NOSIGNAL | MSG_DONTWAIT : MSG_NOSIGNAL;
  send(plan_.socket, &packet, sizeof packet, flags);
}

NoticePacket Init::usage(Notice notice) const {
  rusage reaped{};
  getrusage(RUSAGE_CHILDREN, &reaped);
  const auto in_seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  NoticePacket packet{.notice = notice};
  packet.cpu_seconds =
      live_cpu_seconds_ + in_seconds(reaped.ru_utime) + in_seconds(reaped.ru_stime);
  packet.memory_bytes = memory_bytes_;
  // The largest of the reaped alone, in kB: all there is of a run shorter than a sample.
  packet.memory_peak_bytes = std::max<int64_t>(memory_peak_bytes_, reaped.ru_maxrss * 1024);
  return packet;
}

}  // namespace trainyard::runtime
