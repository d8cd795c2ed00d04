#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>

#include "base/command.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "base/variables.h"
#include "runtime/mpi_programs.h"
#include "runtime/mpi_words.h"
#include "runtime/program.h"

namespace trainyard::runtime {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitNotFound = 127;
constexpr milliseconds kVersionPatience{30'000};
constexpr milliseconds kOverPatience{5'000};

constexpr const char* kInstall =
    "Install Open MPI on every node (Debian: openmpi-bin), or load its module in the target's "
    "setup text";

Result<MpiPlace> read_place() {
  MpiPlace place;
  TRY_SET(place.hosts, parse_hosts(mpi_variable(kMpiHosts)));
  const auto number = [](const char* name, int& into) -> Status {
    TRY_SET(const int64_t value, parse_int(mpi_variable(name), name));
    into = static_cast<int>(value);
    return {};
  };
  TRY(number(kMpiNode, place.node));
  TRY(number(kMpiPerNode, place.per_node));
  TRY(number(kMpiGrace, place.grace_s));
  return place;
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Asking takes a while, so not where its name says it: only Open MPI up to 4 has it.
Result<MpiKind> kind_here() {
  std::error_code none;
  const fs::path file = fs::canonical(find_program("mpirun"), none);
  if (file.filename() == "orterun") return MpiKind{MpiKind::Family::open_mpi, 4, "orterun"};
  TRY_SET(const std::string version, output_of({"mpirun", "--version"}, kVersionPatience));
  return mpi_kind(version);
}

int cpus_here() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// mpirun takes the agent's words apart at their spaces.
Status check_agent(const MpiPlace& place, const MpiVariables& variables) {
  const std::string& program = variables.at(kMpiProgram);
  if (place.nodes() == 1 || program.find_first_of(" \t") == std::string::npos) return {};
  return fail(ErrorKind::invalid, "mpirun cannot use an agent whose path has a space: " + program);
}

bool any_child() {
  siginfo_t found{};
  return waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) == 0;
}

Result<Fd> watch_children() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  Fd fd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno(errno, "watch children");
  return fd;
}

// One a node: what it starts hangs under it for as long as it lives, orphans too, so that a rank
// whose daemon is gone keeps its grace.
class Launcher {
 public:
  Launcher(MpiPlace place, Fd supervisor)
      : place_(std::move(place)), supervisor_(std::move(supervisor)) {}

  int run();

 private:
  Result<int> run_first();
  Result<int> run_mpirun();
  Result<int> run_own();
  Result<int> run_plain();
  Result<int> serve();
  static Result<pid_t> start(const std::vector<std::string>& command,
                             const MpiVariables& variables);
  // Until no child is left; the code of `pid`.
  int wait_for_all(pid_t pid) const;
  void tell_end(int code) const;
  void tell_over() const;
  Status answer(MpiGate& gate, const MpiVariables& variables);
  void reap(const Fd& ends);

  const MpiPlace place_;
  const Fd supervisor_;
  std::map<pid_t, Fd> agents_;  // Of commands that run.
  bool over_ = false;           // No more will come.
  int code_ = 0;
};

int Launcher::run() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Result<int> code = place_.node == 0 ? run_first() : serve();
  if (code) return *code;
  const Error& error = code.error();
  const std::string text = error.message + (error.hint.empty() ? "" : ". " + error.hint);
  static_cast<void>(
      send_mpi(supervisor_.get(), mpi_packet(MpiWord::launch_failed, 0, text)).has_value());
  return error.kind == ErrorKind::not_found ? kExitNotFound : kExitFailed;
}

Result<int> Launcher::run_first() {
  if (mpi_variable(kMpiOwn) == "1") return run_own();
  return find_program("mpirun").empty() ? run_plain() : run_mpirun();
}

Result<int> Launcher::run_mpirun() {
  TRY_SET(const MpiKind kind, kind_here());
  if (kind.family != MpiKind::Family::open_mpi) {
    return fail(ErrorKind::invalid, "the mpirun in PATH is not Open MPI's, but '" + kind.name + "'",
                "Put Open MPI first in PATH, or start this one by your own command");
  }
  MpiVariables variables = own_variables();
  hide_scheduler(variables);
  add_open_mpi_variables(kind, place_, cpus_here(), variables);
  TRY(check_agent(place_, variables));
  // By its name: called by its path, it would look for itself at that path on every node.
  TRY_SET(const pid_t pid,
          start(open_mpi_command("mpirun", place_, mpi_variable(kMpiHostFile), geteuid() == 0),
                variables));
  return wait_for_all(pid);
}

// The command is an mpirun of the user's: it gets our hosts and agent, and one rank's place.
Result<int> Launcher::run_own() {
  MpiVariables variables = own_variables();
  const MpiKind kind = kind_here().value_or(MpiKind{});
  if (kind.family == MpiKind::Family::open_mpi) {
    hide_scheduler(variables);
    add_open_mpi_variables(kind, place_, cpus_here(), variables);
    const std::string prefix = kind.major >= 5 ? "PRTE_MCA_prte_" : "OMPI_MCA_orte_";
    variables[prefix + "default_hostfile"] = mpi_variable(kMpiHostFile);
  }
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  TRY_SET(const pid_t pid, start({mpi_variable(kMpiProgram), "mpi-rank"}, variables));
  const int code = wait_for_all(pid);
  tell_over();
  return code;
}

// One node without mpirun: scripts that read no more than the variables run as well.
Result<int> Launcher::run_plain() {
  if (place_.nodes() > 1) {
    return fail(ErrorKind::not_found, "mpirun was not found in PATH on the first node", kInstall);
  }
  std::fputs(
      "trainyard: mpirun was not found in PATH: the ranks are started without it, and a program\n"
      "trainyard: that calls MPI is alone in a world of its own. Install Open MPI (openmpi-bin).\n",
      stderr);
  for (int rank = 0; rank < place_.per_node; ++rank) {
    MpiVariables variables = own_variables();
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK"}) {
      variables[name] = std::to_string(rank);
    }
    TRY(start({mpi_variable(kMpiProgram), "mpi-rank"}, variables));
  }
  return wait_for_all(0);
}

Result<pid_t> Launcher::start(const std::vector<std::string>& command,
                              const MpiVariables& variables) {
  const std::string& name = command.front();
  const Program program(command, variables, mpi_variable(kMpiFolder));
  TRY_SET(const Fd null, open_file("/dev/null", O_RDONLY));
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const Program::Started started = program.start({null.get(), STDOUT_FILENO, STDERR_FILENO}, files,
                                                 Program::OnParentDeath::live);
  if (started.failure.step != StartStep::none) {
    return fail(ErrorKind::unavailable, explain(started.failure, name));
  }
  return started.pid;
}

int Launcher::wait_for_all(pid_t pid) const {
  int code = 0;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno == ECHILD) return code;
    if (ended != pid) continue;
    code = code_of(status);
    tell_end(code);
  }
}

// Ranks that live on without it are the supervisor's to end.
void Launcher::tell_end(int code) const {
  static_cast<void>(
      send_mpi(supervisor_.get(), mpi_packet(MpiWord::launch_ended, code)).has_value());
}

void Launcher::tell_over() const {
  for (size_t i = 1; i < place_.hosts.size(); ++i) {
    const auto told = run_on(place_.hosts[i], mpi_variable(kMpiToken), "", kOverPatience);
    if (!told) std::fprintf(stderr, "trainyard: %s\n", told.error().message.c_str());
  }
}

// ---- the other nodes ----

Result<int> Launcher::serve() {
  const bool old_one = !find_program("orted").empty();
  if (!old_one && find_program("prted").empty()) {
    const std::string name = mpi_variable("SLURMD_NODENAME");
    return fail(ErrorKind::not_found,
                "Open MPI was not found in PATH on node " + (name.empty() ? host_name() : name),
                kInstall);
  }
  const MpiHost& self = place_.hosts.at(static_cast<size_t>(place_.node));
  TRY_SET(MpiGate gate, MpiGate::open(self.port, mpi_variable(kMpiToken)));
  MpiVariables variables = own_variables();
  hide_scheduler(variables);
  add_open_mpi_variables({MpiKind::Family::open_mpi, old_one ? 4 : 5, ""}, place_, cpus_here(),
                         variables);
  TRY_SET(const Fd ends, watch_children());
  for (;;) {
    pollfd polled[2] = {{gate.fd(), POLLIN, 0}, {ends.get(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0 && errno != EINTR) return fail_errno(errno, "wait for mpirun");
    if (polled[1].revents != 0) reap(ends);
    if (polled[0].revents != 0) TRY(answer(gate, variables));
    if (over_ && agents_.empty() && !any_child()) return code_;
  }
}

Status Launcher::answer(MpiGate& gate, const MpiVariables& variables) {
  Result<MpiGate::Asked> asked = gate.hear();
  if (!asked) {  // Whoever it was: mpirun may come yet.
    std::fprintf(stderr, "trainyard: %s\n", asked.error().message.c_str());
    return {};
  }
  if (asked->command.empty()) {
    over_ = true;
    MpiGate::finish(asked->agent, 0);
    return {};
  }
  TRY_SET(const pid_t pid, start({"/bin/sh", "-c", asked->command}, variables));
  agents_[pid] = std::move(asked->agent);
  return {};
}

void Launcher::reap(const Fd& ends) {
  signalfd_siginfo ignored;
  while (read(ends.get(), &ignored, sizeof ignored) > 0) {
  }
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found = agents_.find(pid);
    if (found == agents_.end()) continue;
    code_ = code_of(status);
    MpiGate::finish(found->second, code_);
    tell_end(code_);
    agents_.erase(found);
    // A user's own mpirun may be followed by another.
    if (mpi_variable(kMpiOwn) != "1") over_ = true;
  }
}

}  // namespace

int mpi_launch() {
  prctl(PR_SET_NAME, "trainyard-mpi");
  Result<Fd> supervisor = connect_mpi(mpi_variable(kMpiSocket));
  const Result<MpiPlace> place = read_place();
  if (!supervisor || !place) {
    const Error& error = supervisor ? place.error() : supervisor.error();
    std::fprintf(stderr, "trainyard: %s\n", error.message.c_str());
    return kExitFailed;
  }
  // What MPI itself has to say goes where the node's first rank prints.
  const Status told =
      send_mpi(supervisor->get(), mpi_packet(MpiWord::launcher), {STDOUT_FILENO, STDERR_FILENO});
  return told ? Launcher(*place, *std::move(supervisor)).run() : kExitFailed;
}

}  // namespace trainyard::runtime
