#include "container/bubblewrap_rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/fd.h"
#include "base/process.h"
#include "base/text.h"
#include "base/variables.h"
#include "container/bubblewrap.h"
#include "container/bubblewrap_file.h"
#include "container/bubblewrap_layer.h"
#include "container/bubblewrap_view.h"
#include "container/run_container.h"
#include "wire/json.h"

namespace trainyard::container {
namespace {

constexpr int kExitNoContainer = 125;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;
constexpr int kLeftoverRounds = 1000;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> found;
  for (std::string& text : texts) found.push_back(text.data());
  found.push_back(nullptr);
  return found;
}

// One container, from the start of bwrap to its end.
class Carrier {
 public:
  explicit Carrier(const Carried& carried) : carried_(carried) {}
  Status start();
  // A wait status; nothing when bwrap could not make the container.
  std::optional<int> carry();
  void end_leftovers();

 private:
  [[noreturn]] void become_bwrap(int status_fd, int block_fd);
  bool make_layer() const;
  void hear();
  void take_signals();
  void reap();
  void release();

  const Carried& carried_;
  Fd signals_;
  Fd status_;  // What bwrap says of itself, a line of JSON each.
  Fd block_;   // The container waits for a byte; its end means that bwrap only waits.
  std::string heard_;
  pid_t bwrap_ = 0;
  pid_t child_ = 0;  // The container's first process; 0: not known yet.
  int early_ = 0;    // A signal that came before it was.
  std::optional<int> ended_;
  bool sent_ = false;     // The byte.
  bool entered_ = false;  // It got as far as its command.
  bool failed_ = false;
};

Status Carrier::start() {
  // Its processes become ours when their parents end, bwrap's own above all.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number :
       {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH}) {
    sigaddset(&wanted, number);
  }
  sigprocmask(SIG_SETMASK, &wanted, nullptr);
  signals_ = Fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno(errno, "watch signals");
  int status[2];
  if (pipe2(status, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  status_ = Fd(status[0]);
  const Fd status_theirs(status[1]);
  int block[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, block) != 0) {
    return fail_errno(errno, "make a socket pair");
  }
  block_ = Fd(block[0]);
  const Fd block_theirs(block[1]);
  bwrap_ = fork();
  if (bwrap_ < 0) return fail_errno(errno, "start bwrap");
  if (bwrap_ == 0) become_bwrap(status_theirs.get(), block_theirs.get());
  return {};
}

void Carrier::become_bwrap(int status_fd, int block_fd) {
  for (const Carried::Limit& limit : carried_.limits) {
    const rlimit wanted{limit.soft, limit.hard};
    if (setrlimit(static_cast<__rlimit_resource>(limit.resource), &wanted) != 0) {
      std::fprintf(stderr, "trainyard: a limit cannot be set: %s\n",
                   errno_error(errno, std::to_string(limit.hard)).message.c_str());
      _exit(kExitNoContainer);
    }
  }
  const bool layered = make_layer();
  std::vector<std::string> words{carried_.bwrap};
  const auto add = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  add(layered ? carried_.layered : carried_.plain);
  add(carried_.words);
  add({"--json-status-fd", std::to_string(status_fd), "--block-fd", std::to_string(block_fd),
       "--"});
  add(carried_.command);
  std::vector<std::string> variables;
  for (const auto& [name, value] : inside_variables(carried_, own_variables())) {
    variables.push_back(name + "=" + value);
  }
  fcntl(status_fd, F_SETFD, 0);
  fcntl(block_fd, F_SETFD, 0);
  reset_signals();
  execve(carried_.bwrap.c_str(), pointers(words).data(), pointers(variables).data());
  std::fprintf(stderr, "trainyard: %s\n", errno_error(errno, carried_.bwrap).message.c_str());
  _exit(kExitNoContainer);
}

bool Carrier::make_layer() const {
  if (carried_.layer.empty()) return false;
  const auto place = enter_layer(carried_.root, carried_.below, carried_.layer);
  if (carried_.kept && (!place || *place != LayerPlace::disk)) {
    std::fprintf(stderr,
                 "trainyard: what this changes of the image is not kept for the ranks: %s can "
                 "carry no layer\n",
                 fs::path(carried_.layer).parent_path().c_str());
  }
  return place.has_value();
}

std::optional<int> Carrier::carry() {
  while (!ended_ && !failed_) {
    pollfd polled[3] = {
        {signals_.get(), POLLIN, 0}, {status_.get(), POLLIN, 0}, {block_.get(), 0, 0}};
    if (poll(polled, 3, -1) < 0 && errno != EINTR) break;
    // First what bwrap has said: it may have ended right after.
    if (polled[1].revents != 0) hear();
    if ((polled[2].revents & (POLLHUP | POLLERR)) != 0) release();
    if (polled[0].revents != 0) take_signals();
  }
  return ended_;
}

void Carrier::hear() {
  char piece[1024];
  const ssize_t got = read(status_.get(), piece, sizeof piece);
  if (got <= 0) {
    status_.reset();
    return;
  }
  heard_.append(piece, static_cast<size_t>(got));
  for (size_t end = heard_.find('\n'); end != std::string::npos; end = heard_.find('\n')) {
    const Result<wire::Json> said = wire::parse(heard_.substr(0, end));
    heard_.erase(0, end + 1);
    if (!said || child_ != 0) continue;
    child_ = static_cast<pid_t>(wire::int_member(*said, "child-pid").value_or(0));
    if (child_ <= 0) continue;
    if (early_ != 0) kill(child_, early_);
    sent_ = send(block_.get(), "x", 1, MSG_NOSIGNAL) == 1;  // Else it is dead; SIGCHLD says how.
  }
}

// The byte was taken: bwrap has made the container, and does nothing any more but turn how it ends
// into an exit code. Without it the container is our own child, and we know better.
void Carrier::release() {
  char none = 0;
  entered_ = sent_ && recv(block_.get(), &none, 1, MSG_DONTWAIT) == 0;  // Else ECONNRESET.
  block_.reset();
  if (entered_ && bwrap_ > 0) kill(bwrap_, SIGKILL);
}

void Carrier::take_signals() {
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    const int number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD) continue;
    if (child_ > 0) {
      kill(child_, number);
    } else {
      early_ = number;
    }
  }
  reap();
}

void Carrier::reap() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid == child_) ended_ = status;
    if (pid != bwrap_) continue;
    bwrap_ = 0;
    // Killed, by us or with its group: the container is ours now.
    if (WIFSIGNALED(status) && child_ > 0) continue;
    if (block_) release();
    if (entered_ && !ended_) ended_ = status;
    failed_ = !entered_;
  }
}

// What the container's first process has left is ours by now, or hangs under what is.
void Carrier::end_leftovers() {
  const std::string list = fmt::format("/proc/self/task/{}/children", getpid());
  for (int round = 0; round < kLeftoverRounds; ++round) {
    for (const std::string& word : split(read_file(list).value_or(""), ' ')) {
      if (const Result<int64_t> pid = parse_int(word, "pid")) {
        kill(static_cast<pid_t>(*pid), SIGKILL);
      }
    }
    pid_t pid = 0;
    while ((pid = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (pid < 0) return;
    poll(nullptr, 0, 1);
  }
}

// The exit code when the command is certainly not there: bwrap would end with 1, as a program may
// do as well.
int check_command(const Carried& carried) {
  const std::string& name = carried.command.at(0);
  const View view(carried.root, carried.binds);
  std::vector<std::string> candidates{name};
  if (name.find('/') == std::string::npos) {
    const std::string path = inside_variables(carried, own_variables()).at("PATH");
    candidates.clear();
    for (const std::string& folder : split(path, ':')) candidates.push_back(folder + "/" + name);
  }
  bool there = false;
  for (const std::string& candidate : candidates) {
    // Relative to a folder of the container, or in one that the kernel makes.
    if (!candidate.starts_with('/') || candidate.starts_with("/proc/")) return 0;
    // In a layer below it may be anything: a link to what the image has, say.
    struct stat changed{};
    const std::string below = changes_of(carried.below) + candidate;
    if (!carried.below.empty() && lstat(below.c_str(), &changed) == 0) return 0;
    const Result<Place> place = view.find(candidate);
    if (!place || !place->exists || place->folder) continue;
    if (access(place->outside.c_str(), X_OK) == 0) return 0;
    there = true;
  }
  const char* what = there ? "is in the container and cannot be executed: permission denied"
                           : "was not found in the container";
  std::fprintf(stderr, "trainyard: program '%s' %s\n", name.c_str(), what);
  return there ? kExitNotExecutable : kExitNotFound;
}

// As others see it who wait for us.
[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);  // What was to be dumped is the container's, not us.
    reset_signals();
    kill(getpid(), WTERMSIG(status));
  }
  _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

// bwrap has said what it could not do; what to do about it is for us to say.
void explain_failure(const Carried& carried) {
  const Status works = try_bubblewrap(carried.bwrap);
  // A view of the machine is bubblewrap's alone.
  const std::string other = carried.root == "/"
                                ? " Or leave out the paths that the run asks for (-v, --mount)."
                                : " Or start docker or podman there, which containers then use.";
  const std::string why = works ? std::string(kBubblewrapFailed)
                                : works.error().message + ". " + works.error().hint + other;
  std::fprintf(stderr, "trainyard: there was no container: %s\n", why.c_str());
  if (carried.note.empty()) return;
  const std::string note = fmt::format("{}: {}\n", kNotStarted, why);
  static_cast<void>(write_file(carried.note, note, 0600).has_value());
}

int carry_rank(const Carried& carried) {
  if (const int code = check_command(carried); code != 0) return code;
  Carrier carrier(carried);
  if (const Status started = carrier.start(); !started) {
    std::fprintf(stderr, "trainyard: %s\n", started.error().message.c_str());
    return kExitNoContainer;
  }
  const std::optional<int> ended = carrier.carry();
  carrier.end_leftovers();
  if (!carried.layer.empty() && !carried.kept) {
    static_cast<void>(remove_tree(carried.layer).has_value());
  }
  if (ended) end_as(*ended);
  explain_failure(carried);
  return kExitNoContainer;
}

}  // namespace

int bubblewrap_rank(const fs::path& file) {
  prctl(PR_SET_NAME, "trainyard-rank");
  const Result<Carried> carried = read_carried(file);
  if (carried && !carried->command.empty()) return carry_rank(*carried);
  const std::string why = carried ? "there is no command" : carried.error().message;
  std::fprintf(stderr, "trainyard: %s\n", why.c_str());
  return kExitNoContainer;
}

int bubblewrap_program(const std::vector<std::string>& words) {
  if (words.size() != 2 || words[0] != kBubblewrapProgram) return -1;
  return bubblewrap_rank(words[1]);
}

}  // namespace trainyard::container
