#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "runtime/handover.h"
#include "runtime/message.h"
#include "runtime/program.h"

namespace trainyard::runtime {

enum class Isolation {
  automatic,      // A PID namespace where that is allowed, else a sweep.
  pid_namespace,  // The kernel kills all when init ends, whatever the processes did to hide.
  sweep,          // Init is a subreaper: it finds its descendants in /proc and kills them.
};

// What init needs, made before it is forked.
struct InitPlan {
  Isolation isolation = Isolation::pid_namespace;  // Never automatic.
  int socket = -1;    // To the supervisor; its end means that the supervisor is dead.
  int null = -1;      // /dev/null, the ranks' stdin.
  int handover = -1;  // Holds the ranks' commands when they are to be started.
  fs::path folder;    // Where they start.
  struct Rank {
    int out = -1;
    int err = -1;
  };
  std::vector<Rank> ranks;
  rlimit files{};  // The limit the supervisor was started with; ranks get it back.
};

// Forks init and returns its pid. Only while there is one thread: the child goes on as we are.
Result<pid_t> fork_init(const InitPlan& plan);

// The first process of an attempt on its node: starts the ranks, reaps everything, obeys orders,
// and when the last rank has ended, or the supervisor, kills whatever is left. Runs in the forked
// child.
class Init {
 public:
  explicit Init(const InitPlan& plan) : plan_(plan) {}
  [[noreturn]] void run();

 private:
  struct Rank {
    pid_t pid = 0;
    bool running = false;
  };

  void obey();
  void start_ranks();
  StartFailure make_programs();
  void reap();
  void reap_one(pid_t pid, int status);
  void sample();
  // Returns when no process is left.
  void kill_everything();
  [[noreturn]] void finish();
  void terminate_first();
  void terminate_followers();
  bool any_running() const;
  void tell(NoticePacket packet) const;
  NoticePacket usage(Notice notice) const;

  const InitPlan& plan_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<Rank> ranks_;
  bool started_ = false;
  int64_t memory_bytes_ = 0;
  int64_t memory_peak_bytes_ = 0;
  double live_cpu_seconds_ = 0;
  int64_t sample_at_ms_ = 0;
};

}  // namespace trainyard::runtime
