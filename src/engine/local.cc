#include "engine/local.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/process.h"
#include "base/spread_folders.h"
#include "engine/local_folder.h"
#include "engine/local_machine.h"

namespace trainyard::engine {
namespace {

constexpr int kRecoveriesMax = 3;
constexpr int kExitBusy = 75;  // supervisor::kExitBusy: another is at work in the folder.
constexpr seconds kKillPatience{5};
constexpr const char* kMarkVariable = "TRAINYARD_ATTEMPT_MARK";

class LocalEngine : public Engine {
 public:
  explicit LocalEngine(LocalOptions options)
      : options_(std::move(options)),
        capacity_(machine_capacity()),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this](std::stop_token stop) { watch(stop); }) {}
  ~LocalEngine() override {
    thread_.request_stop();
    wake();
  }

  Capacity capacity() const override { return capacity_; }
  Status place(const Assignment& assignment) override;
  Status recover(const AttemptId& attempt) override;
  Placement inspect(const AttemptId& attempt) override;
  Status kill(const AttemptId& attempt) override;
  Status release(const AttemptId& attempt) override;
  void on_gone(Gone gone) override;

 private:
  // An attempt we watch. Its process may be a child of ours or of an earlier server.
  struct Watched {
    pid_t pid = 0;
    Fd pidfd;
    bool child = false;
    bool live = false;
    bool releasing = false;
    int recoveries = 0;
  };
  using All = std::map<AttemptId, Watched>;
  struct Ended {
    AttemptId attempt;
    pid_t pid = 0;
    int status = 0;  // As waitid() has it; -1 when it was not our child.
    bool signaled = false;
  };

  // These hold the lock.
  Status start(const AttemptId& attempt, Watched& watched);
  Status take_up(const AttemptId& attempt, Watched& watched);
  static std::optional<Ended> reap(const AttemptId& attempt, Watched& watched);

  void watch(std::stop_token stop);
  void wait(const std::vector<pollfd>& polled) const;
  void settle(const Ended& ended);
  void forget_ended(const AttemptId& attempt, const std::string& why);
  void wake() { eventfd_write(wake_.get(), 1); }
  fs::path folder(const AttemptId& attempt) const { return options_.home.attempt(attempt); }

  const LocalOptions options_;
  const Capacity capacity_;
  const Fd wake_;

  std::mutex mutex_;
  std::condition_variable changed_;
  All all_;  // Held by mutex_.
  std::mutex gone_mutex_;
  Gone gone_;  // Held by gone_mutex_.

  std::jthread thread_;  // The last: it ends before what it uses.
};

std::string describe(int status, bool signaled) {
  if (status < 0) return "ended";
  if (!signaled) return "exited with code " + std::to_string(status);
  const char* name = sigabbrev_np(status);
  return "was killed by signal " + std::to_string(status) +
         (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
}

Status LocalEngine::place(const Assignment& assignment) {
  const AttemptId attempt = assignment.id();
  std::lock_guard lock(mutex_);
  if (all_.contains(attempt)) return {};
  TRY(write_assignment(folder(attempt), assignment));
  Watched watched;
  TRY(start(attempt, watched));
  all_.emplace(attempt, std::move(watched));
  wake();
  return {};
}

Status LocalEngine::recover(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  if (all_.contains(attempt)) return {};
  Watched watched;
  TRY(take_up(attempt, watched));
  all_.emplace(attempt, std::move(watched));
  wake();
  return {};
}

Placement LocalEngine::inspect(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  const auto found = all_.find(attempt);
  if (found == all_.end()) return Placement::unknown;
  return found->second.live ? Placement::live : Placement::gone;
}

Status LocalEngine::kill(const AttemptId& attempt) {
  std::unique_lock lock(mutex_);
  const auto found = all_.find(attempt);
  if (found == all_.end() || !found->second.live) return {};
  const pid_t pid = found->second.pid;
  syscall(SYS_pidfd_send_signal, found->second.pidfd.get(), SIGKILL, nullptr, 0);
  // What it started dies with it. A supervisor started on its folder makes sure of that, and learns
  // from the server whether it is wanted.
  const bool dead = changed_.wait_for(lock, kKillPatience, [&] {
    const auto now = all_.find(attempt);
    return now == all_.end() || !now->second.live || now->second.pid != pid;
  });
  if (dead) return {};
  return fail(ErrorKind::unavailable, "supervisor " + std::to_string(pid) + " does not die");
}

Status LocalEngine::release(const AttemptId& attempt) {
  {
    std::lock_guard lock(mutex_);
    auto found = all_.find(attempt);
    if (found == all_.end()) {
      // Of an earlier server. One that is not done may have left something to kill.
      const Result<LockFile> state = read_lock(folder(attempt));
      Watched watched;
      const bool begun = state && (state->owner != 0 || !state->mark.empty());
      if (begun && !state->done && take_up(attempt, watched)) {
        found = all_.emplace(attempt, std::move(watched)).first;
        wake();
      }
    }
    if (found != all_.end() && found->second.live) {
      found->second.releasing = true;  // The folder goes when the supervisor has.
      return {};
    }
    if (found != all_.end()) all_.erase(found);
  }
  return remove_tree(folder(attempt));
}

void LocalEngine::on_gone(Gone gone) {
  std::lock_guard lock(gone_mutex_);
  gone_ = std::move(gone);
}

Status LocalEngine::start(const AttemptId& attempt, Watched& watched) {
  const fs::path path = folder(attempt);
  TRY_SET(const Fd errors, open_file(path / "supervisor.err", O_WRONLY | O_CREAT | O_APPEND, 0600));
  SpawnOptions options;
  options.command = {options_.binary.string(), "supervise", "--folder", path.string()};
  options.folder = path;
  options.stdout_fd = errors.get();
  options.stderr_fd = errors.get();
  options.new_session = true;
  TRY_SET(Child child, spawn(options));
  watched.pid = child.pid;
  watched.pidfd = std::move(child.pidfd);
  watched.child = true;
  watched.live = true;
  return {};
}

// Watches whoever is at work in the folder, or starts one.
Status LocalEngine::take_up(const AttemptId& attempt, Watched& watched) {
  if (!fs::exists(folder(attempt) / "assignment.json")) {
    return fail(ErrorKind::not_found, "attempt " + attempt.str() + " is not on this machine");
  }
  TRY_SET(const LockFile state, read_lock(folder(attempt)));
  if (state.done && state.owner == 0) return {};  // Over: it stays as one that is gone.
  if (state.owner == 0) return start(attempt, watched);
  Result<Fd> pidfd = open_pidfd(state.owner);
  // Asked again now that its pid cannot be given to another.
  TRY_SET(const LockFile again, read_lock(folder(attempt)));
  if (!pidfd || again.owner != state.owner) return start(attempt, watched);
  watched.pid = state.owner;
  watched.pidfd = *std::move(pidfd);
  watched.child = false;
  watched.live = true;
  return {};
}

void LocalEngine::watch(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
    std::vector<Ended> ended;
    {
      std::lock_guard lock(mutex_);
      for (auto& [attempt, watched] : all_) {
        if (!watched.live) continue;
        polled.push_back({watched.pidfd.get(), POLLIN, 0});
      }
    }
    wait(polled);
    {
      std::lock_guard lock(mutex_);
      for (auto& [attempt, watched] : all_) {
        if (!watched.live) continue;
        if (std::optional<Ended> one = reap(attempt, watched)) ended.push_back(*one);
      }
    }
    for (const Ended& one : ended) settle(one);
  }
}

void LocalEngine::wait(const std::vector<pollfd>& polled) const {
  std::vector<pollfd> copy = polled;
  poll(copy.data(), copy.size(), -1);
  uint64_t count = 0;
  if (copy[0].revents != 0 && read(wake_.get(), &count, sizeof count) < 0) return;
}

std::optional<LocalEngine::Ended> LocalEngine::reap(const AttemptId& attempt, Watched& watched) {
  if (!watched.child) {
    pollfd ended{watched.pidfd.get(), POLLIN, 0};
    if (poll(&ended, 1, 0) <= 0) return std::nullopt;
    return Ended{attempt, watched.pid, -1, false};
  }
  siginfo_t info{};
  const auto id = static_cast<id_t>(watched.pid);
  if (waitid(P_PID, id, &info, WEXITED | WNOHANG) != 0) {
    return Ended{attempt, watched.pid, -1, false};  // Somebody else has taken its end.
  }
  if (info.si_pid == 0) return std::nullopt;
  return Ended{attempt, watched.pid, info.si_status, info.si_code != CLD_EXITED};
}

void LocalEngine::settle(const Ended& ended) {
  const Result<LockFile> state = read_lock(folder(ended.attempt));
  const bool done = (ended.status == 0 && !ended.signaled) || (state && state->done);
  const std::string why = describe(ended.status, ended.signaled);
  if (!done) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(ended.attempt);
    if (found == all_.end()) return;
    Watched& watched = found->second;
    // A supervisor that found another at work has not failed: that one is watched instead.
    const bool busy = ended.status == kExitBusy && !ended.signaled;
    if (watched.recoveries < kRecoveriesMax) {
      watched.recoveries += busy ? 0 : 1;
      options_.log.warn("supervisor died",
                        {{"attempt", ended.attempt.str()}, {"pid", ended.pid}, {"why", why}});
      Watched next{.recoveries = watched.recoveries};
      next.releasing = watched.releasing;
      if (const Status taken = take_up(ended.attempt, next)) {
        watched = std::move(next);
        if (watched.live) {
          changed_.notify_all();
          return;
        }
      }
    }
  }
  if (!done && state && !state->mark.empty()) {
    if (const Status killed = kill_marked(kMarkVariable, state->mark); !killed) {
      options_.log.error("attempt not killed",
                         {{"attempt", ended.attempt.str()}, {"error", killed.error().message}});
    }
  }
  forget_ended(ended.attempt, why);
}

void LocalEngine::forget_ended(const AttemptId& attempt, const std::string& why) {
  bool releasing = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(attempt);
    if (found == all_.end()) return;
    releasing = found->second.releasing;
    found->second.live = false;
    if (releasing) all_.erase(found);
    changed_.notify_all();
  }
  if (releasing) {
    if (const Status removed = remove_tree(folder(attempt)); !removed) {
      options_.log.warn("folder not removed",
                        {{"attempt", attempt.str()}, {"error", removed.error().message}});
    }
    return;  // Whoever releases an attempt knows that it is over.
  }
  std::lock_guard lock(gone_mutex_);
  if (gone_) gone_(attempt, {.why = why});
}

}  // namespace

Result<std::unique_ptr<Engine>> make_local(LocalOptions options) {
  TRY(make_dirs(options.home.node(), 0700));
  spread_folders_below(options.home.node());  // A run's folder is there for seconds, maybe.
  return std::make_unique<LocalEngine>(std::move(options));
}

}  // namespace trainyard::engine
