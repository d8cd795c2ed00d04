#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "runtime/init.h"
#include "runtime/message.h"

namespace trainyard::runtime {

// The variable that marks every process of an attempt.
inline constexpr std::string_view kMarkVariable = "TRAINYARD_ATTEMPT_MARK";

struct RankCommand {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // All of it.
};

struct RanksOptions {
  std::vector<RankCommand> ranks;
  fs::path folder;   // Where they start.
  std::string mark;  // Random; set in their environment.
  Isolation isolation = Isolation::automatic;
};

// Names an attempt's processes for whoever must end them later.
struct Leftovers {
  Isolation isolation = Isolation::sweep;
  pid_t init = 0;
  uint64_t init_start_ticks = 0;
  std::string boot;  // Of the machine; in another one init is gone whatever has its pid.
  std::string mark;
};

struct AllStarted {};
struct StartFailed {
  int rank = 0;
  StartFailure failure;
};
struct RankEnded {
  int rank = 0;
  int exit_code = 0;  // As a shell has it: 128+N for signal N.
  int signal = 0;
};
struct Usage {
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;
  int64_t memory_peak_bytes = 0;
};
struct AllDead {
  Usage usage;
  bool init_lost = false;  // Somebody killed init: ranks that had not ended were killed with it.
};
using RankEvent = std::variant<AllStarted, StartFailed, RankEnded, Usage, AllDead>;

// The ranks of an attempt on this node, each a process. Nothing of them outlives this object, nor
// the process that owns it however it ends. One thread.
class Ranks {
 public:
  // Forks init, which then waits. To be called while there is one thread.
  static Result<std::unique_ptr<Ranks>> prepare(const RanksOptions& options);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const Leftovers& leftovers() const { return leftovers_; }

  // The read ends of a rank's outputs, not blocking; taken once.
  struct Outputs {
    Fd out;
    Fd err;
  };
  Outputs take_outputs(int rank);

  void start();            // AllStarted or StartFailed follows.
  void terminate_first();  // SIGTERM to each rank's first process.
  void terminate_group();  // SIGTERM to each rank's process group.
  void kill_all();         // AllDead follows.

  // Readable when there is an event.
  int event_fd() const { return socket_.get(); }
  // The next one, if there is one now. After AllDead there is none.
  std::optional<RankEvent> next_event();

 private:
  Ranks() = default;
  Status open_pipes(size_t count);
  Status fork(Isolation isolation, const RanksOptions& options, const rlimit& files);
  Status wait_until_ready(pid_t pid, Isolation isolation);
  void order(Order order);
  RankEvent init_lost();

  Leftovers leftovers_;
  Fd socket_;
  std::vector<Outputs> outputs_;
  bool over_ = false;

  struct Pipes {
    Fd out;
    Fd err;
  };
  std::vector<Pipes> write_ends_;  // Until init is forked.
};

// Kills what an attempt's dead supervisor may have left; returns when nothing is there any more, or
// `unavailable` when something does not die.
Status kill_leftovers(const Leftovers& leftovers);

}  // namespace trainyard::runtime
