#include "container/run_container.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/text.h"
#include "base/variables.h"
#include "container/arguments.h"
#include "container/docker_config.h"
#include "container/engine_api.h"
#include "container/plan_file.h"

namespace trainyard::container {
namespace {

constexpr int kExitNone = 125;
constexpr int kExitRefused = 126;
constexpr int kContainerNotFound = 127;
constexpr int kExitKilled = 128 + SIGKILL;

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// A process that has just been started drops signals until it has said that it wants them.
constexpr milliseconds kSettle{100};

constexpr seconds kRemoveEvery{2};
constexpr std::chrono::hours kRemoveMax{24};

constexpr const char* kHomeInside = "/tmp";  // Of an account that the image does not know.

constexpr size_t kBeginMax = 200;  // Of stderr: a line of the first process.

Result<Fd> signals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : kForwarded) sigaddset(&wanted, number);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  Fd fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno(errno, "make a signalfd");
  return fd;
}

// Hands our signals on to a container, in a thread of its own; and ends it when the grace is over.
// Says which process it is, for who measures it.
class Forwarder {
 public:
  Forwarder(const EngineAddress& engine, std::string id, int signal_fd, const Plan& plan);
  ~Forwarder();

  bool killed() const { return killed_; }

 private:
  void run();
  bool wait(std::optional<SteadyTime> until, int fd);
  void tell_process();

  MonotoneClock clock_;
  EngineApi api_;
  const std::string id_;
  const int signal_fd_;
  const seconds grace_;
  const std::string process_;
  Fd over_{eventfd(0, EFD_CLOEXEC)};
  std::atomic<bool> killed_ = false;
  std::jthread thread_;
};

class EngineCarrier {
 public:
  EngineCarrier(PlanFile file, int signal_fd)
      : plan_(std::move(file.plan)),
        engine_(std::move(file.engine)),
        account_(std::move(file.account)),
        signal_fd_(signal_fd) {}
  Result<int> run();
  void note(std::string_view text) const;
  bool started() const { return started_; }

 private:
  Status create(Init init);
  Status check_binds() const;
  Status add_account();
  Result<int> follow();
  Status hand_on(int stream, std::string_view bytes);
  bool stopped_already() const;
  Status check_init(int code) const;
  bool ran_out_of_memory(int code, bool killed);

  const Plan plan_;
  const EngineAddress engine_;
  const Account account_;
  const int signal_fd_;
  EngineApi api_{engine_};
  std::string id_;
  bool closed_[3] = {};  // Nobody reads that output any more.
  std::string begin_;    // Of its stderr.
  std::atomic<bool> started_ = false;
};

int remove_later(const EngineAddress& engine, const std::string& mark) {
  MonotoneClock clock;
  const SteadyTime end = clock.steady() + kRemoveMax;
  while (!remove_marked(engine, mark)) {
    if (clock.steady() > end) return 1;
    clock.sleep_until(clock.steady() + kRemoveEvery, {});
  }
  return 0;
}

int exit_code_of(const Error& error) {
  const auto says = [&](std::string_view words) {
    return error.message.find(words) != std::string::npos;
  };
  if (!says("exec: ") && !says("start '")) return kExitNone;
  if (says("executable file not found") || says("no such file or directory"))
    return kContainerNotFound;
  if (says("permission denied")) return kExitRefused;
  return kExitNone;
}

}  // namespace

int run_container(const fs::path& file) {
  const auto say = [](const Error& error) {
    const std::string text =
        "container: " + error.message + "\n" + (error.hint.empty() ? "" : "  " + error.hint + "\n");
    static_cast<void>(write_all(STDERR_FILENO, text, "stderr").has_value());
  };
  auto signal_fd = signals();
  auto plan = read_plan(file);
  if (!signal_fd || !plan) {
    say(signal_fd ? plan.error() : signal_fd.error());
    return kExitNone;
  }
  EngineCarrier carrier(*std::move(plan), signal_fd->get());
  const Result<int> code = carrier.run();
  if (code) return *code;
  say(code.error());
  const std::string_view what = carrier.started() ? kEngineLost : kNotStarted;
  carrier.note(fmt::format("{}: {}", what, code.error().message));
  return carrier.started() ? kExitNone : exit_code_of(code.error());
}

int container_program(const std::vector<std::string>& words) {
  if (words.empty() || words[0] != kContainerProgram) return -1;
  if (words.size() == 2) return run_container(words[1]);
  if (words.size() != 5 || words[1] != kRemoveLater) return -1;
  return remove_later({.socket = words[2], .api = words[3]}, words[4]);
}

Status remove_marked(const EngineAddress& engine, const std::string& mark) {
  EngineApi api(engine);
  TRY_SET(const std::vector<std::string> ids, api.list(std::string(kLabelMark) + "=" + mark));
  for (const std::string& id : ids) TRY(api.remove(id));
  return {};
}

namespace {

Result<int> EngineCarrier::run() {
  TRY(create(Init::yes));
  Result<int> code = follow();
  // docker looks for its own only when a container starts.
  if (!code && code.error().message.find("docker-init") != std::string::npos) {
    TRY(api_.remove(id_));
    TRY(create(Init::no));
    code = follow();
  }
  if (code && *code == 0 && plan_.kept) {
    if (Status kept = api_.commit(id_, kept_image(plan_.name), plan_.variables); !kept) {
      code = std::unexpected(std::move(kept).error());
    }
  }
  // Whatever became of it, it is gone when we are.
  if (const Status removed = EngineApi(engine_).remove(id_); !removed && code) {
    return std::unexpected(removed.error());
  }
  return code;
}

// podman would make them, as root.
Status EngineCarrier::check_binds() const {
  TRY_SET(const Arguments arguments, parse_arguments(plan_.arguments));
  std::vector<Bind> binds = plan_.binds;
  binds.insert(binds.end(), arguments.binds.begin(), arguments.binds.end());
  for (const Bind& bind : binds) {
    struct stat found{};
    if (::lstat(bind.source.c_str(), &found) == 0 || errno != ENOENT) continue;
    return fail(ErrorKind::not_found,
                fmt::format("{}, which was to be seen as {}, is not on this machine", bind.source,
                            bind.target));
  }
  return {};
}

Status EngineCarrier::create(Init init) {
  TRY(check_binds());
  const Here here = look_here(account_);
  const auto variables = own_variables();
  TRY_SET(wire::Json config, container_config(plan_, engine_, here, variables, init));
  auto id = api_.create(plan_.name, config);
  // podman looks for its own at once.
  if (!id && engine_.podman && id.error().message.find("init binary") != std::string::npos) {
    config["HostConfig"].erase("Init");
    id = api_.create(plan_.name, config);
  }
  // Before 3.2 it takes that for a group's name.
  if (!id && id.error().message.find(kKeepGroups) != std::string::npos) {
    config["HostConfig"].erase("GroupAdd");
    id = api_.create(plan_.name, config);
  }
  if (!id && id.error().kind == ErrorKind::not_found && !plan_.root.empty()) {
    const std::string made = fs::path(plan_.root).parent_path();
    return fail(
        ErrorKind::not_found,
        fmt::format("{}: it was removed from {}; remove {}, and the next run makes it again",
                    id.error().message, engine_.name(), made));
  }
  if (!id) return std::unexpected(id.error());
  id_ = *std::move(id);
  // One that cannot be told who runs it runs all the same.
  if (runs_as(account_, plan_, engine_)) static_cast<void>(add_account().has_value());
  return {};
}

Status EngineCarrier::add_account() {
  const auto text = [&](const char* path) -> Result<std::string> {
    auto found = api_.read_text(id_, path);
    if (!found && found.error().kind == ErrorKind::not_found) return std::string();
    return found;
  };
  TRY_SET(const std::string passwd, text("/etc/passwd"));
  TRY_SET(const std::string group, text("/etc/group"));
  const TempDir files;
  TRY(write_file(files.path() / "passwd", passwd_with(passwd, account_, kHomeInside)));
  TRY(write_file(files.path() / "group",
                 group_with(group, account_, read_file("/etc/group").value_or(""))));
  return api_.put_files(id_, files.path(), "/etc");
}

Result<int> EngineCarrier::follow() {
  EngineApi output(engine_);
  std::promise<void> attached;
  std::future<void> is_attached = attached.get_future();
  Status followed;
  std::jthread pump([&] {
    bool told = false;
    const auto begun = [&] {
      told = true;
      attached.set_value();
    };
    const auto take = [this](int stream, std::string_view bytes) { return hand_on(stream, bytes); };
    followed = output.attach(id_, begun, take);
    if (!told) attached.set_value();
  });
  is_attached.wait();
  const bool stopped = stopped_already();
  const Status started = stopped ? Status() : api_.start(id_);
  // There will be no output, and docker would wait for it for ever.
  if (stopped || !started) output.interrupt();
  if (stopped) return 128 + SIGTERM;
  TRY(started);
  started_ = true;
  const Forwarder forwarder(engine_, id_, signal_fd_, plan_);
  pump.join();
  TRY_SET(const int code, api_.wait(id_));
  TRY(followed);
  if (Status good = check_init(code); !good) {
    started_ = false;
    return std::unexpected(std::move(good).error());
  }
  if (ran_out_of_memory(code, forwarder.killed())) {
    const auto limit = static_cast<uint64_t>(plan_.memory_bytes);
    note(limit == 0
             ? std::string(kOutOfMemory)
             : fmt::format("{}: the container's limit is {}", kOutOfMemory, format_size(limit)));
  }
  return code;
}

// podman's first process says in its own way, and by 1, that a command cannot be started.
Status EngineCarrier::check_init(int code) const {
  if (code != 1 || !begin_.starts_with("ERROR (catatonit:") ||
      begin_.find("failed to exec") == std::string::npos) {
    return {};
  }
  const std::string_view text = trim(begin_);
  std::string why(text.substr(text.rfind(':') + 2));
  why.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(why.front())));
  TRY_SET(const Arguments arguments, parse_arguments(plan_.arguments));
  TRY_SET(const std::vector<std::string> words, started_words(plan_, arguments));
  return fail(ErrorKind::invalid, "start '" + words.front() + "': " + why);
}

Status EngineCarrier::hand_on(int stream, std::string_view bytes) {
  started_ = true;  // Whatever becomes of the answer that says so.
  if (stream == STDERR_FILENO && begin_.size() < kBeginMax) begin_ += bytes.substr(0, kBeginMax);
  if (closed_[stream]) return {};
  const Status written = write_all(stream, bytes, stream == STDOUT_FILENO ? "stdout" : "stderr");
  closed_[stream] = !written.has_value();
  return {};
}

bool EngineCarrier::stopped_already() const {
  pollfd one{signal_fd_, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

// An engine says so, but not always: of podman's programs some do not tell it, and docker forgets
// it where its container's end comes to its ears first. A limit, and a SIGKILL that nobody here has
// sent, are the kernel's doing.
bool EngineCarrier::ran_out_of_memory(int code, bool killed) {
  if (code == 0) return false;
  const auto state = api_.state(id_);
  if (state && state->out_of_memory) return true;
  return plan_.memory_bytes > 0 && code == kExitKilled && !killed;
}

void EngineCarrier::note(std::string_view text) const {
  if (plan_.note.empty()) return;
  static_cast<void>(write_file(plan_.note, std::string(text) + "\n", 0600).has_value());
}

// ---- Forwarder ----

Forwarder::Forwarder(const EngineAddress& engine, std::string id, int signal_fd, const Plan& plan)
    : api_(engine),
      id_(std::move(id)),
      signal_fd_(signal_fd),
      grace_(plan.grace_s),
      process_(plan.process),
      thread_([this] { run(); }) {}

Forwarder::~Forwarder() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(over_.get(), &one, sizeof(one));
}

void Forwarder::run() {
  std::optional<SteadyTime> kill_at;
  const SteadyTime settled = clock_.steady() + kSettle;
  bool told = process_.empty();
  for (;;) {
    if (!wait(told ? kill_at : settled, signal_fd_)) return;
    if (!told && clock_.steady() >= settled) {
      tell_process();
      told = true;
      continue;
    }
    if (kill_at && clock_.steady() >= *kill_at) {
      killed_ = true;
      static_cast<void>(api_.kill(id_, SIGKILL).has_value());
      kill_at.reset();
      continue;
    }
    signalfd_siginfo signal{};
    if (::read(signal_fd_, &signal, sizeof(signal)) != sizeof(signal)) continue;
    if (!wait(settled, -1)) return;
    const auto number = static_cast<int>(signal.ssi_signo);
    if (number == SIGTERM && !kill_at) kill_at = clock_.steady() + grace_;
    static_cast<void>(api_.kill(id_, number).has_value());
  }
}

// One that is over before a moment has passed need not wait for this.
void Forwarder::tell_process() {
  const auto state = api_.state(id_);
  if (!state || state->pid == 0) return;
  const std::string text = fmt::format("{} {}\n", id_, state->pid);
  static_cast<void>(write_file(process_, text, 0600).has_value());
}

// For `fd` or a time; false when all is over.
bool Forwarder::wait(std::optional<SteadyTime> until, int fd) {
  pollfd fds[2] = {{over_.get(), POLLIN, 0}, {fd, POLLIN, 0}};
  int ms = -1;
  if (until) {
    const auto left = std::chrono::ceil<milliseconds>(*until - clock_.steady()).count();
    ms = static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
  }
  ::poll(fds, 2, ms);
  return fds[0].revents == 0;
}

}  // namespace

}  // namespace trainyard::container
