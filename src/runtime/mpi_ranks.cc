#include "runtime/mpi_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/hash.h"
#include "runtime/mpi_programs.h"

namespace trainyard::runtime {
namespace {

constexpr int kPipeBytes = 1 << 18;
constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

bool readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

Status open_pipe(Fd& read_end, Fd& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  read_end = Fd(ends[0]);
  write_end = Fd(ends[1]);
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  fcntl(read_end.get(), F_SETPIPE_SZ, kPipeBytes);  // Smaller will do.
  return {};
}

}  // namespace

fs::path mpi_scratch(const std::string& token, int slot) {
  const fs::path memory = "/dev/shm";
  std::error_code none;
  const bool there = fs::is_directory(memory, none) && access(memory.c_str(), W_OK | X_OK) == 0;
  const fs::path base = there ? memory : fs::temp_directory_path(none);
  const std::string name = "trainyard-" + sha256("mpi scratch " + token).hex().substr(0, 24);
  return base / (slot == 0 ? name : name + "-" + std::to_string(slot));
}

Result<std::unique_ptr<MpiRanks>> MpiRanks::prepare(const RanksOptions& options,
                                                    std::string program, fs::path scratch) {
  std::unique_ptr<MpiRanks> made(new MpiRanks());
  RanksOptions one = options;
  one.count = 1;
  TRY_SET(made->inner_, Ranks::prepare(one));
  made->program_ = std::move(program);
  made->scratch_ = std::move(scratch);
  made->place_.per_node = static_cast<int>(options.count);
  made->socket_name_ = new_mpi_socket_name();
  TRY_SET(made->listener_, listen_mpi(made->socket_name_));
  made->poll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->poll_) return fail_errno(errno, "make a poll set");
  TRY(made->watch(made->listener_.get()));
  TRY(made->watch(made->inner_->event_fd()));
  TRY(made->open_outputs(options.count));
  return made;
}

MpiRanks::~MpiRanks() {
  inner_.reset();  // Nothing writes there any more.
  if (!scratch_.empty()) static_cast<void>(remove_tree(scratch_).has_value());
}

// The first rank's are the launcher's too, which brings their write ends.
Status MpiRanks::open_outputs(size_t count) {
  ranks_.resize(count);
  ranks_[0].read_ends = inner_->take_outputs(0);
  for (size_t i = 1; i < count; ++i) {
    TRY(open_pipe(ranks_[i].read_ends.out, ranks_[i].out));
    TRY(open_pipe(ranks_[i].read_ends.err, ranks_[i].err));
  }
  return {};
}

Status MpiRanks::watch(int fd) const {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.fd = fd;
  if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) {
    return fail_errno(errno, "watch a process of MPI");
  }
  return {};
}

RankSet::Outputs MpiRanks::take_outputs(int rank) {
  return std::move(ranks_.at(static_cast<size_t>(rank)).read_ends);
}

RankCommand MpiRanks::launcher(const RankCommand& first, bool own) const {
  RankCommand command{{program_, "mpi-launch"}, first.environment, first.shared};
  MpiVariables& variables = command.environment;
  // The rank's own numbers are none of mpirun's.
  std::erase_if(variables, [](const auto& pair) {
    return pair.first.starts_with("OMPI_COMM_WORLD_") || pair.first.starts_with("PMIX_");
  });
  // A rank in a container has its image's. mpirun is the node's, and looks for its own programs.
  const std::string path = mpi_variable("PATH");
  variables.try_emplace("PATH", path.empty() ? kUsualPath : path);
  variables[kMpiSocket] = socket_name_;
  variables[kMpiProgram] = program_;
  variables[kMpiFolder] = variables["TRAINYARD_WORK"].empty() ? "/" : variables["TRAINYARD_WORK"];
  variables[kMpiScratch] = scratch_;
  variables[kMpiHosts] = format_hosts(place_.hosts);
  variables[kMpiHostFile] = scratch_ / "hosts";
  variables[kMpiNode] = std::to_string(place_.node);
  variables[kMpiPerNode] = std::to_string(place_.per_node);
  variables[kMpiGrace] = std::to_string(place_.grace_s);
  variables[kMpiOwn] = own ? "1" : "0";
  return command;
}

Status MpiRanks::start(std::vector<RankCommand> commands) {
  ENSURE(commands.size() == ranks_.size());
  TRY(make_dirs(scratch_, 0700));
  TRY(write_file(scratch_ / "hosts", host_file(place_)));
  for (RankCommand& each : commands) {
    each.environment[std::string(kMarkVariable)] = leftovers().mark;
    each.environment["AZ_BATCHAI_MPI_HOST_FILE"] = scratch_ / "hosts";
  }
  commands_ = std::move(commands);
  own_ = is_mpirun(commands_[0].command);
  // The agent of a user's own mpirun runs among the user's processes, and reads it there.
  if (own_) commands_[0].environment[kMpiHosts] = format_hosts(place_.hosts);
  if (own_ && place_.one_machine()) commands_[0].environment.try_emplace("TMPDIR", scratch_);
  return inner_->start({launcher(commands_[0], own_)});
}

void MpiRanks::terminate_first() {
  terminating_ = true;
  tell_all(MpiWord::terminate_first);
  end_if_done();
}

void MpiRanks::terminate_group() { tell_all(MpiWord::terminate_group); }

void MpiRanks::kill_all() {
  terminating_ = true;
  end_all();
}

void MpiRanks::end_all() {
  killing_ = true;
  inner_->kill_all();
}

void MpiRanks::tell_all(MpiWord word) {
  for (const Rank& rank : ranks_) {
    if (!rank.socket || rank.ended) continue;
    static_cast<void>(send_mpi(rank.socket.get(), mpi_packet(word)).has_value());
  }
}

size_t MpiRanks::count(bool Rank::* is) const {
  return static_cast<size_t>(
      std::ranges::count_if(ranks_, [&](const Rank& rank) { return rank.*is; }));
}

std::optional<RankEvent> MpiRanks::next_event() {
  if (events_.empty()) pump();
  if (events_.empty()) return std::nullopt;
  RankEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// What ranks say before what became of their launcher: they said it first.
void MpiRanks::pump() {
  hear_all();
  while (std::optional<RankEvent> event = inner_->next_event()) translate(*event);
  end_if_done();
}

void MpiRanks::hear_all() {
  accept_all();
  hear_ranks();
  if (launcher_socket_ && readable(launcher_socket_.get())) hear_launcher();
}

void MpiRanks::accept_all() {
  while (readable(listener_.get())) {
    Result<Fd> fd = accept_mpi(listener_.get());
    if (!fd || !watch(fd->get())) break;
    strangers_.push_back(*std::move(fd));
  }
  for (Fd& socket : strangers_) {
    if (readable(socket.get())) hear(socket);
  }
  std::erase_if(strangers_, [](const Fd& socket) { return !socket; });
}

void MpiRanks::hear_ranks() {
  for (Rank& rank : ranks_) {
    while (rank.socket && readable(rank.socket.get())) hear_rank(rank);
  }
}

void MpiRanks::hear_launcher() {
  const Result<MpiReceived> said = receive_mpi(launcher_socket_.get());
  if (!said) {
    launcher_socket_.reset();
  } else if (said->packet.word == MpiWord::launch_failed) {
    launch_error_ = said->packet.text;
  } else if (said->packet.word == MpiWord::launch_ended) {
    launcher_code_ = said->packet.number;
    hear_ranks();  // They may have said since we looked that they had ended.
    if (live() > 0 && !failed_ && !terminating_) blame_launcher();
  }
}

void MpiRanks::hear(Fd& socket) {
  Result<MpiReceived> hello = receive_mpi(socket.get());
  Fd taken = std::move(socket);
  if (hello) greet(std::move(taken), *hello);
}

void MpiRanks::greet(Fd socket, const MpiReceived& hello) {
  if (hello.packet.word == MpiWord::launcher && hello.fds.size() == 2) {
    ranks_[0].out = Fd(fcntl(hello.fds[0].get(), F_DUPFD_CLOEXEC, 3));
    ranks_[0].err = Fd(fcntl(hello.fds[1].get(), F_DUPFD_CLOEXEC, 3));
    launcher_socket_ = std::move(socket);
    return;
  }
  const int number = hello.packet.number;
  const int first = place_.node * place_.per_node;
  const bool ours =
      hello.packet.word == MpiWord::rank && number >= first && number < first + place_.per_node;
  Rank* const rank = ours ? &ranks_[static_cast<size_t>(number - first)] : nullptr;
  std::string refusal;
  if (rank == nullptr) {
    refusal = "mpirun has put rank " + std::to_string(number) + " on node " +
              std::to_string(place_.node) + ", where ranks " + std::to_string(first) + " to " +
              std::to_string(first + place_.per_node - 1) + " belong";
    if (launch_error_.empty()) launch_error_ = refusal;
  } else if (rank->socket || rank->ended || !rank->out) {
    refusal = "rank " + std::to_string(number) + " was started twice";
  } else if (terminating_ || killing_) {
    refusal = "the run is being stopped";
  }
  if (!refusal.empty()) {
    static_cast<void>(send_mpi(socket.get(), mpi_packet(MpiWord::refused, 0, refusal)).has_value());
    return;
  }
  give_plan(*rank, std::move(socket));
}

void MpiRanks::give_plan(Rank& rank, Fd socket) {
  const auto give = [&]() -> Status {
    TRY_SET(const Fd plan, open_handover());
    TRY(hand_over(plan.get(), {commands_[static_cast<size_t>(index_of(rank))]}));
    return send_mpi(socket.get(), mpi_packet(MpiWord::plan),
                    {rank.out.get(), rank.err.get(), plan.get()});
  };
  if (const Status given = give(); !given) {
    launch_error_ = given.error().message;
    return;
  }
  rank.begun = true;
  rank.socket = std::move(socket);
  rank.out.reset();
  rank.err.reset();
}

void MpiRanks::hear_rank(Rank& rank) {
  const Result<MpiReceived> said = receive_mpi(rank.socket.get());
  if (!said) {  // Its wrapper is dead, and its program with it.
    rank.socket.reset();
    if (rank.begun && !rank.ended) end_rank(rank, SIGKILL);
    return;
  }
  const MpiPacket& packet = said->packet;
  switch (packet.word) {
    case MpiWord::start_failed:
      failed_ = true;
      rank.ended = true;
      events_.push_back(
          StartFailed{index_of(rank), {static_cast<StartStep>(packet.step), packet.number}});
      end_all();
      return;
    case MpiWord::stopped:
      rank.stopped = true;
      if (place_.node > 0 && !failed_ && !terminating_) blame_launcher();
      return;
    case MpiWord::ended:
      if (packet.step == 0) rank.stopped = false;  // It did that by itself.
      end_rank(rank, packet.number);
      return;
    default:
      return;
  }
}

void MpiRanks::end_rank(Rank& rank, int status) {
  rank.ended = true;
  // Whoever is to blame, it is not one that mpirun has stopped.
  if (rank.stopped && status != 0 && !failed_ && !terminating_) {
    rank.withheld = status;
    return;
  }
  push_end(rank, status);
  if (status != 0) failed_ = true;
}

void MpiRanks::push_end(const Rank& rank, int status) {
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  events_.push_back(
      RankEnded{index_of(rank), signal != 0 ? 128 + signal : WEXITSTATUS(status), signal});
}

// mpirun is not waited for when there is nothing left that it could carry.
void MpiRanks::end_if_done() {
  if (killing_ || live() > 0) return;
  const size_t expected = own_ ? 1 : ranks_.size();
  const bool stopped = count(&Rank::stopped) > 0;
  if (terminating_ || (failed_ && count(&Rank::ended) >= expected) ||
      (stopped && place_.nodes() > 1)) {
    end_all();
  }
}

void MpiRanks::translate(const RankEvent& event) {
  if (const auto* ended = std::get_if<RankEnded>(&event)) {
    launcher_code_ = ended->exit_code;
  } else if (const auto* dead = std::get_if<AllDead>(&event)) {
    conclude(*dead);
  } else {
    events_.push_back(event);
  }
}

// No rank here is to blame for the end of all; what is, the first node knows, or another one.
void MpiRanks::blame_launcher() {
  if (std::exchange(blamed_, true)) return;
  if (!launch_error_.empty()) {
    events_.push_back(LaunchFailed{killing_ ? 1 : launcher_code_, launch_error_, true});
  } else if (place_.node > 0) {
    events_.push_back(StoppedElsewhere{});
  } else if (killing_ || launcher_code_ == 0) {
    events_.push_back(LaunchFailed{1, "mpirun has ended the ranks, and none had failed", false});
  } else {
    const std::string code = std::to_string(launcher_code_);
    events_.push_back(
        LaunchFailed{launcher_code_,
                     "mpirun exited with code " + code + ", and no rank here had failed", false});
  }
}

void MpiRanks::conclude(const AllDead& dead) {
  hear_all();  // Nobody is left: this is all they said.
  const bool unexplained = launcher_code_ != 0 || count(&Rank::stopped) > 0;
  if (!failed_ && !terminating_ && !dead.init_lost && unexplained) blame_launcher();
  for (Rank& rank : ranks_) {
    if (rank.withheld) push_end(rank, *rank.withheld);
    // One that a user's own mpirun carried, wherever it ran.
    if (own_ && !rank.begun && !failed_ && launcher_code_ == 0) push_end(rank, 0);
  }
  events_.push_back(dead);
}

}  // namespace trainyard::runtime
