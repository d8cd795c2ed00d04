#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/text.h"
#include "base/variables.h"
#include "runtime/handover.h"
#include "runtime/mpi_programs.h"
#include "runtime/mpi_words.h"
#include "runtime/proc_table.h"
#include "runtime/program.h"

namespace trainyard::runtime {
namespace {

constexpr int kRankFailed = 1;
// mpirun ends all when one has called MPI_Abort. That one ends by itself, with its code, if it is
// let.
constexpr int kOwnEndMs = 300;

// As Open MPI, Hydra (MPICH, Intel) and PMIx have it.
Result<int> own_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (const Result<int64_t> rank = parse_int(mpi_variable(name), name)) {
      return static_cast<int>(*rank);
    }
  }
  return fail(ErrorKind::invalid, "mpirun has not told a process its rank");
}

// Carries one rank's program: tells the supervisor how it ended, which mpirun would not, and keeps
// mpirun from ending the others when it failed: they are the supervisor's to end, with their grace.
class RankCarrier {
 public:
  Status start();
  int carry();

 private:
  void obey();
  void take_signals();
  void end(int status);
  void stop();  // By mpirun.
  void terminate();
  void tell(MpiWord word, int32_t number = 0) {
    static_cast<void>(send_mpi(socket_.get(), mpi_packet(word, number)).has_value());
  }

  Fd socket_;
  Fd signals_;
  pid_t child_ = 0;
  bool running_ = false;
  bool terminated_ = false;
  bool stopped_ = false;  // By mpirun.
  bool over_ = false;
  int code_ = kRankFailed;
};

Result<Fd> watch_signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT}) {
    sigaddset(&wanted, number);
  }
  sigprocmask(SIG_SETMASK, &wanted, nullptr);
  Fd fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno(errno, "watch signals");
  return fd;
}

Status RankCarrier::start() {
  TRY_SET(signals_, watch_signals());
  TRY_SET(socket_, connect_mpi(mpi_variable(kMpiSocket)));
  TRY_SET(const int rank, own_rank());
  TRY(send_mpi(socket_.get(), mpi_packet(MpiWord::rank, rank)));
  TRY_SET(MpiReceived plan, receive_mpi(socket_.get()));
  if (plan.packet.word != MpiWord::plan || plan.fds.size() != 3) {
    return fail(ErrorKind::invalid, plan.packet.text);
  }
  TRY_SET(const std::vector<RankCommand> commands, take_handover(plan.fds[2].get()));
  if (commands.size() != 1) return fail(ErrorKind::internal, "a rank's command is missing");
  const Program program(commands[0].command,
                        rank_variables(commands[0].environment, own_variables()),
                        mpi_variable(kMpiFolder));
  TRY_SET(const Fd null, open_file("/dev/null", O_RDONLY));
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const Program::Started started = program.start({null.get(), plan.fds[0].get(), plan.fds[1].get()},
                                                 files, Program::OnParentDeath::die);
  if (started.failure.step != StartStep::none) {
    MpiPacket packet = mpi_packet(MpiWord::start_failed, started.failure.number);
    packet.step = static_cast<int32_t>(started.failure.step);
    TRY(send_mpi(socket_.get(), packet));
    code_ = exit_code_of(started.failure);
    return {};
  }
  child_ = started.pid;
  running_ = true;
  return {};
}

int RankCarrier::carry() {
  // A rank that failed stays until the supervisor has ended all: the end of the socket.
  while (!over_) {
    pollfd polled[2] = {{socket_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    const int ready = poll(polled, 2, stopped_ && running_ && !terminated_ ? kOwnEndMs : -1);
    if (ready < 0 && errno != EINTR) break;
    if (ready == 0) terminate();
    if (polled[1].revents != 0) take_signals();
    if (polled[0].revents != 0) obey();
  }
  return code_;
}

void RankCarrier::obey() {
  const Result<MpiReceived> order = receive_mpi(socket_.get());
  if (!order) {  // The supervisor is dead.
    if (running_) kill(-child_, SIGKILL);
    over_ = true;
    return;
  }
  if (order->packet.word == MpiWord::terminate_first) terminate();
  if (order->packet.word == MpiWord::terminate_group && running_) {
    signal_followers(child_, SIGTERM);
  }
}

void RankCarrier::take_signals() {
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    switch (signal.ssi_signo) {
      case SIGCHLD: {
        int status = 0;
        if (running_ && waitpid(child_, &status, WNOHANG) == child_) end(status);
        break;
      }
      case SIGTERM:
        // From outside of our namespace: a scheduler, which has signalled all processes of its job.
        if (signal.ssi_pid == 0) terminated_ = true;
        stop();
        break;
      case SIGCONT:
        // With it mpirun begins to end a rank; its SIGTERM comes much later. Others, a scheduler
        // that lets a job go on, mean what they say.
        if (static_cast<pid_t>(signal.ssi_pid) == getppid()) stop();
        break;
      default:
        if (running_) kill(child_, static_cast<int>(signal.ssi_signo));
    }
  }
}

void RankCarrier::stop() {
  if (!std::exchange(stopped_, true)) tell(MpiWord::stopped);
  if (!running_) over_ = true;
}

void RankCarrier::terminate() {
  if (running_ && !std::exchange(terminated_, true)) kill(child_, SIGTERM);
}

void RankCarrier::end(int status) {
  running_ = false;
  MpiPacket packet = mpi_packet(MpiWord::ended, status);
  packet.step = terminated_ ? 1 : 0;
  static_cast<void>(send_mpi(socket_.get(), packet).has_value());
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code_ == 0 || stopped_) over_ = true;
}

}  // namespace

int mpi_rank() {
  prctl(PR_SET_NAME, "trainyard-rank");
  RankCarrier carrier;
  if (const Status started = carrier.start(); !started) {
    std::fprintf(stderr, "trainyard: %s\n", started.error().message.c_str());
    return kRankFailed;
  }
  return carrier.carry();
}

}  // namespace trainyard::runtime
