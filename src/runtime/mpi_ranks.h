#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/mpi_command.h"
#include "runtime/mpi_words.h"
#include "runtime/ranks.h"

namespace trainyard::runtime {

// The ranks of an attempt on this node when MPI starts them: our launcher is
// the one process that we start, mpirun or its daemon hangs under it, and each
// rank's own wrapper comes back to us by a socket for its command, its outputs
// and its orders. To whoever uses them they are as others are: ended by us and
// not by mpirun, and each with its own exit code.
class MpiRanks final : public RankSet {
 public:
  // `program` is a binary that knows mpi_program(); `scratch` a folder for
  // MPI's own files, ours alone and removed at the end.
  static Result<std::unique_ptr<MpiRanks>> prepare(const RanksOptions& options, std::string program,
                                                   fs::path scratch);
  ~MpiRanks() override;

  const Leftovers& leftovers() const override { return inner_->leftovers(); }
  Outputs take_outputs(int rank) override;
  // Among which nodes; before start().
  void set_place(MpiPlace place) { place_ = std::move(place); }
  Status start(std::vector<RankCommand> commands) override;
  void terminate_first() override;
  void terminate_group() override;
  void kill_all() override;
  int event_fd() const override { return poll_.get(); }
  std::optional<RankEvent> next_event() override;

 private:
  struct Rank {
    Outputs read_ends;
    Fd out, err;         // Until it comes for them.
    Fd socket;           // While it is there.
    bool begun = false;  // Its program may run.
    bool ended = false;
    bool stopped = false;         // By mpirun.
    std::optional<int> withheld;  // How a stopped one ended.
  };

  MpiRanks() = default;
  Status open_outputs(size_t count);
  Status watch(int fd) const;
  RankCommand launcher(const RankCommand& first, bool own) const;
  void pump();
  void accept_all();
  void hear_all();
  void hear_launcher();
  void hear_ranks();
  void hear(Fd& socket);
  void hear_rank(Rank& rank);
  void greet(Fd socket, const MpiReceived& hello);
  void give_plan(Rank& rank, Fd socket);
  void end_rank(Rank& rank, int status);
  void push_end(const Rank& rank, int status);
  void translate(const RankEvent& event);
  void blame_launcher();
  void conclude(const AllDead& dead);
  void tell_all(MpiWord word);
  void end_if_done();
  void end_all();
  size_t count(bool Rank::* is) const;
  size_t live() const { return count(&Rank::begun) - count(&Rank::ended); }
  int index_of(const Rank& rank) const { return static_cast<int>(&rank - ranks_.data()); }

  std::unique_ptr<Ranks> inner_;
  MpiPlace place_;
  std::string program_;
  fs::path scratch_;
  std::string socket_name_;
  Fd listener_;
  Fd poll_;
  std::vector<Rank> ranks_;
  std::vector<RankCommand> commands_;
  std::vector<Fd> strangers_;  // Connected, and have not said who they are.
  Fd launcher_socket_;
  std::deque<RankEvent> events_;
  std::string launch_error_;
  int launcher_code_ = 0;
  bool own_ = false;          // The command is an mpirun of the user's.
  bool failed_ = false;       // A rank, by itself.
  bool blamed_ = false;       // The launcher, or another node.
  bool terminating_ = false;  // We were asked to.
  bool killing_ = false;
};

// Where MPI's own files of an attempt go on this node: memory where there is
// some. By the attempt's token, so that it is the same on all nodes, and nobody
// guesses it. Nodes that share a machine have one each, by `slot`: Open MPI names files by process
// numbers, which are the same in their namespaces.
fs::path mpi_scratch(const std::string& token, int slot);

}  // namespace trainyard::runtime
