#include "engine/local.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <ranges>
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
  // The supervisor of one node of an attempt. It may be a child of ours or of an earlier server.
  struct Key {
    AttemptId attempt;
    int node = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Watched {
    pid_t pid = 0;
    Fd pidfd;
    bool child = false;
    bool live = false;
    bool releasing = false;
    int recoveries = 0;
  };
  using All = std::map<Key, Watched>;
  struct Ended {
    Key key;
    pid_t pid = 0;
    int status = 0;  // As waitid() has it; -1 when it was not our child.
    bool signaled = false;
  };

  // These hold the lock.
  std::vector<All::value_type*> nodes_of(const AttemptId& attempt);
  bool any_live(const AttemptId& attempt);
  Status place_node(const Assignment& assignment);
  Status start(const Key& key, Watched& watched);
  Status take_up(const Key& key, Watched& watched);
  void adopt(const Key& key);
  static std::optional<Ended> reap(const Key& key, Watched& watched);

  void watch(std::stop_token stop);
  void wait(const std::vector<pollfd>& polled) const;
  void settle(const Ended& ended);
  void forget_ended(const Key& key, const std::string& why, bool done);
  void wake() { eventfd_write(wake_.get(), 1); }
  fs::path folder(const Key& key) const { return options_.home.attempt(key.attempt, key.node); }
  int folders_of(const AttemptId& attempt) const;

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

void kill_by(const Fd& pidfd) { syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0); }

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
  if (!nodes_of(attempt).empty()) return {};
  for (int node = 0; node < assignment.spec.nodes; ++node) {
    Assignment one = assignment;
    one.node = node;
    if (options_.prepare) options_.prepare(one);
    const Status placed = place_node(one);
    if (placed) continue;
    // The others would wait for it; the attempt is lost.
    for (auto* begun : nodes_of(attempt)) {
      begun->second.releasing = true;
      kill_by(begun->second.pidfd);
    }
    return placed;
  }
  return {};
}

Status LocalEngine::place_node(const Assignment& assignment) {
  const Key key{assignment.id(), assignment.node};
  TRY(write_assignment(folder(key), assignment));
  Watched watched;
  TRY(start(key, watched));
  all_.emplace(key, std::move(watched));
  wake();
  return {};
}

Status LocalEngine::recover(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  if (!nodes_of(attempt).empty()) return {};
  Status first;
  // One at least: what is not there is an error.
  for (int node = 0; node == 0 || node < folders_of(attempt); ++node) {
    const Key key{attempt, node};
    Watched watched;
    const Status taken = take_up(key, watched);
    if (taken) all_.emplace(key, std::move(watched));
    if (!taken && first) first = taken;
  }
  wake();
  return first;
}

Placement LocalEngine::inspect(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  if (nodes_of(attempt).empty()) return Placement::unknown;
  return any_live(attempt) ? Placement::live : Placement::gone;
}

Status LocalEngine::kill(const AttemptId& attempt) {
  std::unique_lock lock(mutex_);
  std::map<Key, pid_t> killed;
  for (auto* each : nodes_of(attempt)) {
    if (!each->second.live) continue;
    killed.emplace(each->first, each->second.pid);
    kill_by(each->second.pidfd);
  }
  // What it started dies with it. A supervisor started on its folder makes sure of that, and learns
  // from the server whether it is wanted.
  const auto lives = [&](const auto& one) {
    const auto now = all_.find(one.first);
    return now != all_.end() && now->second.live && now->second.pid == one.second;
  };
  const bool dead =
      changed_.wait_for(lock, kKillPatience, [&] { return std::ranges::none_of(killed, lives); });
  if (dead) return {};
  const pid_t pid = std::ranges::find_if(killed, lives)->second;
  return fail(ErrorKind::unavailable, "supervisor " + std::to_string(pid) + " does not die");
}

Status LocalEngine::release(const AttemptId& attempt) {
  std::vector<Key> over;
  {
    std::lock_guard lock(mutex_);
    const int count = std::max(folders_of(attempt), static_cast<int>(nodes_of(attempt).size()));
    for (int node = 0; node < count; ++node) {
      const Key key{attempt, node};
      if (!all_.contains(key)) adopt(key);
      const auto found = all_.find(key);
      if (found != all_.end() && found->second.live) {
        found->second.releasing = true;  // The folder goes when the supervisor has.
        continue;
      }
      if (found != all_.end()) all_.erase(found);
      over.push_back(key);
    }
  }
  // The first is the last to go: by it they are counted.
  for (const Key& key : over | std::views::reverse) TRY(remove_tree(folder(key)));
  return {};
}

// Of an earlier server. One that is not done may have left something to kill.
void LocalEngine::adopt(const Key& key) {
  const Result<LockFile> state = read_lock(folder(key));
  Watched watched;
  const bool begun = state && (state->owner != 0 || !state->mark.empty());
  if (!begun || state->done || !take_up(key, watched)) return;
  all_.emplace(key, std::move(watched));
  wake();
}

std::vector<LocalEngine::All::value_type*> LocalEngine::nodes_of(const AttemptId& attempt) {
  std::vector<All::value_type*> found;
  for (auto at = all_.lower_bound({attempt, 0}); at != all_.end(); ++at) {
    if (at->first.attempt != attempt) break;
    found.push_back(&*at);
  }
  return found;
}

bool LocalEngine::any_live(const AttemptId& attempt) {
  return std::ranges::any_of(nodes_of(attempt), [](auto* each) { return each->second.live; });
}

// One behind the last node that has a folder here.
int LocalEngine::folders_of(const AttemptId& attempt) const {
  int count = 0;
  while (fs::exists(folder({attempt, count}))) ++count;
  return count;
}

void LocalEngine::on_gone(Gone gone) {
  std::lock_guard lock(gone_mutex_);
  gone_ = std::move(gone);
}

Status LocalEngine::start(const Key& key, Watched& watched) {
  const fs::path path = folder(key);
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
Status LocalEngine::take_up(const Key& key, Watched& watched) {
  if (!fs::exists(folder(key) / "assignment.json")) {
    return fail(ErrorKind::not_found, "attempt " + key.attempt.str() + " is not on this machine");
  }
  TRY_SET(const LockFile state, read_lock(folder(key)));
  if (state.done && state.owner == 0) return {};  // Over: it stays as one that is gone.
  if (state.owner == 0) return start(key, watched);
  Result<Fd> pidfd = open_pidfd(state.owner);
  // Asked again now that its pid cannot be given to another.
  TRY_SET(const LockFile again, read_lock(folder(key)));
  if (!pidfd || again.owner != state.owner) return start(key, watched);
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
      for (auto& [key, watched] : all_) {
        if (!watched.live) continue;
        polled.push_back({watched.pidfd.get(), POLLIN, 0});
      }
    }
    wait(polled);
    {
      std::lock_guard lock(mutex_);
      for (auto& [key, watched] : all_) {
        if (!watched.live) continue;
        if (std::optional<Ended> one = reap(key, watched)) ended.push_back(*one);
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

std::optional<LocalEngine::Ended> LocalEngine::reap(const Key& key, Watched& watched) {
  if (!watched.child) {
    pollfd ended{watched.pidfd.get(), POLLIN, 0};
    if (poll(&ended, 1, 0) <= 0) return std::nullopt;
    return Ended{key, watched.pid, -1, false};
  }
  siginfo_t info{};
  const auto id = static_cast<id_t>(watched.pid);
  if (waitid(P_PID, id, &info, WEXITED | WNOHANG) != 0) {
    return Ended{key, watched.pid, -1, false};  // Somebody else has taken its end.
  }
  if (info.si_pid == 0) return std::nullopt;
  return Ended{key, watched.pid, info.si_status, info.si_code != CLD_EXITED};
}

void LocalEngine::settle(const Ended& ended) {
  const Result<LockFile> state = read_lock(folder(ended.key));
  const bool done = (ended.status == 0 && !ended.signaled) || (state && state->done);
  const std::string why = describe(ended.status, ended.signaled);
  if (!done) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(ended.key);
    if (found == all_.end()) return;
    Watched& watched = found->second;
    // A supervisor that found another at work has not failed: that one is watched instead.
    const bool busy = ended.status == kExitBusy && !ended.signaled;
    if (watched.recoveries < kRecoveriesMax) {
      watched.recoveries += busy ? 0 : 1;
      options_.log.warn("supervisor died",
                        {{"attempt", ended.key.attempt.str()}, {"pid", ended.pid}, {"why", why}});
      Watched next{.recoveries = watched.recoveries};
      next.releasing = watched.releasing;
      if (const Status taken = take_up(ended.key, next)) {
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
                         {{"attempt", ended.key.attempt.str()}, {"error", killed.error().message}});
    }
  }
  forget_ended(ended.key, why, done);
}

// An attempt is gone when the last of its nodes is. One that could not be saved ends the others,
// which would wait for it: supervisors started on their folders send what is left.
void LocalEngine::forget_ended(const Key& key, const std::string& why, bool done) {
  bool releasing = false;
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(key);
    if (found == all_.end()) return;
    releasing = found->second.releasing;
    found->second.live = false;
    if (releasing) all_.erase(found);
    last = !any_live(key.attempt);
    for (auto* other : nodes_of(key.attempt)) {
      if (!done && other->second.live) kill_by(other->second.pidfd);
    }
    changed_.notify_all();
  }
  if (releasing) {
    if (const Status removed = remove_tree(folder(key)); !removed) {
      options_.log.warn("folder not removed",
                        {{"attempt", key.attempt.str()}, {"error", removed.error().message}});
    }
    return;  // Whoever releases an attempt knows that it is over.
  }
  if (!last) return;
  std::lock_guard lock(gone_mutex_);
  if (gone_) gone_(key.attempt, {.why = why});
}

}  // namespace

Result<std::unique_ptr<Engine>> make_local(LocalOptions options) {
  TRY(make_dirs(options.home.node(), 0700));
  spread_folders_below(options.home.node());  // A run's folder is there for seconds, maybe.
  return std::make_unique<LocalEngine>(std::move(options));
}

}  // namespace trainyard::engine
