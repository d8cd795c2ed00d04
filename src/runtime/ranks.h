#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "runtime/handover.h"
#include "runtime/init.h"
#include "runtime/message.h"

namespace trainyard::runtime {

// The variable that marks every process of an attempt.
inline constexpr std::string_view kMarkVariable = "TRAINYARD_ATTEMPT_MARK";

struct RanksOptions {
  size_t count = 1;
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
// MPI only: what starts the ranks failed, and none of them did.
struct LaunchFailed {
  int exit_code = 1;
  std::string text;     // A plain sentence.
  bool before = false;  // Before any rank could begin.
};
// MPI only: the ranks here were ended for something that happened on another node.
struct StoppedElsewhere {};
using RankEvent = std::variant<AllStarted, StartFailed, RankEnded, Usage, AllDead, LaunchFailed,
                               StoppedElsewhere>;

// The ranks of an attempt on this node, whoever starts them. Nothing of them outlives this object,
// nor the process that owns it however it ends. One thread.
class RankSet {
 public:
  virtual ~RankSet() = default;
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  virtual const Leftovers& leftovers() const = 0;

  // The read ends of a rank's outputs, not blocking; taken once.
  struct Outputs {
    Fd out;
    Fd err;
  };
  virtual Outputs take_outputs(int rank) = 0;

  // One command a rank; to be called once. AllStarted or StartFailed follows.
  virtual Status start(std::vector<RankCommand> commands) = 0;
  virtual void terminate_first() = 0;  // SIGTERM to each rank's first process.
  virtual void terminate_group() = 0;  // SIGTERM to the rest of its process group.
  virtual void kill_all() = 0;         // AllDead follows.

  // Readable when there is an event.
  virtual int event_fd() const = 0;
  // The next one, if there is one now. After AllDead there is none.
  virtual std::optional<RankEvent> next_event() = 0;

 protected:
  RankSet() = default;
};

// Each a process of its own, started by us.
class Ranks final : public RankSet {
 public:
  // Forks init, which then waits. To be called while there is one thread.
  static Result<std::unique_ptr<Ranks>> prepare(const RanksOptions& options);
  ~Ranks() override;

  const Leftovers& leftovers() const override { return leftovers_; }
  Outputs take_outputs(int rank) override;
  Status start(std::vector<RankCommand> commands) override;
  void terminate_first() override;
  void terminate_group() override;
  void kill_all() override;
  int event_fd() const override { return socket_.get(); }
  std::optional<RankEvent> next_event() override;

 private:
  Ranks() = default;
  Status open_pipes(size_t count);
  Status fork(Isolation isolation, const RanksOptions& options, const rlimit& files);
  Status wait_until_ready(pid_t pid, Isolation isolation);
  void order(Order order);
  RankEvent init_lost();

  Leftovers leftovers_;
  Fd socket_;
  Fd handover_;  // Until the ranks are started.
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
