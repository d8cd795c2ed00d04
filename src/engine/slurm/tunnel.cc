#include "engine/slurm/tunnel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/process.h"
#include "base/text.h"
#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"
#include "engine/slurm/ssh.h"

namespace trainyard::engine {
std::string_view embedded(std::string_view name);
}  // namespace trainyard::engine

namespace trainyard::engine::slurm {
namespace {

constexpr seconds kComeUp{90};  // A login, and trainyard-node over a slow line.
constexpr seconds kSign{5};     // Between two signs of life; the relay wants one in 30 s.
constexpr seconds kTunnelGoodbye{3};
constexpr int kTakenMax = 6;  // Tries, over a minute: a relay of ours ends in half of one.
constexpr size_t kSaidMax = 16UL * 1024;
constexpr std::string_view kAllocated = "Allocated port ";

std::string path_or_ours(const std::string& given) {
  if (!given.empty()) return given;
  const char* ours = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  return std::string(ours != nullptr ? ours : "") + ":" + kUsualPlaces;
}

uint16_t port_in(std::string_view text) {
  uint16_t port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

}  // namespace

// One ssh under way, from its start to its end.
class Tunnel::Talk {
 public:
  Talk(Tunnel& tunnel, Child child, Pipe in, Pipe out, Pipe err)
      : tunnel_(tunnel),
        child_(std::move(child)),
        in_(std::move(in.ours)),
        out_(std::move(out.ours)),
        err_(std::move(err.ours)) {}

  // ssh removes its socket when it is asked to end, and the relay ends with its input.
  ~Talk() {
    if (child_.pid == 0) return;
    ::kill(child_.pid, SIGTERM);
    pollfd ended{child_.pidfd.get(), POLLIN, 0};
    const auto limit = std::chrono::milliseconds(kTunnelGoodbye).count();
    if (poll(&ended, 1, static_cast<int>(limit)) != 1) ::kill(child_.pid, SIGKILL);
    waitpid(child_.pid, nullptr, 0);
  }

  // Until it ends, or is stopped; `cancelled` then.
  Error run() {
    Clock& clock = tunnel_.options_.clock;
    const SteadyTime limit = clock.steady() + kComeUp;
    SteadyTime sign = clock.steady() + kSign;
    for (;;) {
      send_input();
      std::array<pollfd, 5> polled{{{child_.pidfd.get(), POLLIN, 0},
                                    {tunnel_.stop_.get(), POLLIN, 0},
                                    {out_ ? out_.get() : -1, POLLIN, 0},
                                    {err_ ? err_.get() : -1, POLLIN, 0},
                                    {input_.empty() ? -1 : in_.get(), POLLOUT, 0}}};
      const auto left = std::chrono::ceil<milliseconds>(sign - clock.steady());
      poll(polled.data(), polled.size(), std::max(0, static_cast<int>(left.count())));
      if (polled[1].revents != 0) return {ErrorKind::cancelled, "no longer wanted", {}};
      listen();
      if (polled[0].revents != 0) return ended();
      if (clock.steady() >= sign) {
        if (up_) input_ += '\n';
        sign = clock.steady() + kSign;
      }
      if (!up_ && clock.steady() > limit) {
        return ssh_error(tunnel_.options_.ssh,
                         errors_ + "\nno answer in " + std::to_string(kComeUp.count()) + " s\n");
      }
    }
  }

 private:
  void send_input() {
    while (!input_.empty()) {
      const ssize_t sent = send(in_.get(), input_.data(), input_.size(), MSG_NOSIGNAL);
      if (sent < 0) return;  // It waits, or has ended.
      input_.erase(0, static_cast<size_t>(sent));
    }
  }

  void listen() {
    read_from(out_, said_);
    read_from(err_, errors_);
    for (size_t end = 0; (end = said_.find('\n')) != std::string::npos;) {
      hear(std::string(trim(said_.substr(0, end))));
      said_.erase(0, end + 1);
    }
    if (const size_t at = errors_.find(kAllocated); forwarded_ == 0 && at != std::string::npos) {
      const size_t end = errors_.find('\n', at);
      if (end == std::string::npos) return;
      forwarded_ = port_in(std::string_view(errors_).substr(at + kAllocated.size()));
      errors_.erase(at, end + 1 - at);
      tell_port();
    }
  }
  static void read_from(Fd& fd, std::string& into) {
    std::array<char, 4096> buffer;  // NOLINT: read() fills it.
    while (fd) {
      const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return fd.reset();
      into.append(buffer.data(), static_cast<size_t>(got));
      if (into.size() > kSaidMax) into.erase(0, into.size() - kSaidMax);
    }
  }

  // A site's own greeting may come between.
  void hear(const std::string& line) {
    if (line == "trainyard: need") input_ += tunnel_.options_.program;
    if (line == "trainyard: ready") {
      ready_ = true;
      tell_port();
      return;
    }
    const std::vector<std::string> words = split(line, ' ');
    if (!ready_ || up_ || words.size() != 2 || port_in(words[1]) == 0) return;
    up_ = true;
    errors_.clear();
    tunnel_.came_up(words[0], port_in(words[1]));
  }
  void tell_port() {
    if (ready_ && forwarded_ != 0) input_ += std::to_string(forwarded_) + "\n";
  }

  Error ended() {
    int status = 0;
    while (waitpid(child_.pid, &status, 0) < 0 && errno == EINTR) {
    }
    child_.pid = 0;
    return ssh_error(tunnel_.options_.ssh, errors_);
  }

  Tunnel& tunnel_;
  Child child_;
  Fd in_;
  Fd out_;
  Fd err_;
  std::string input_;
  std::string said_;
  std::string errors_;
  uint16_t forwarded_ = 0;  // The port there that leads here.
  bool ready_ = false;      // trainyard-node is there and is being started.
  bool up_ = false;
};

Tunnel::Tunnel(TunnelOptions options)
    : options_(std::move(options)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  control_ = options_.folder / (options_.name + ".ssh");
  if (control_.native().size() > kControlPathMax) {
    short_ = std::make_unique<TempDir>();
    control_ = short_->path() / "ssh";
  }
  environment_ = {{"PATH", path_or_ours(options_.path)}, {"LANG", "C.UTF-8"}};
  for (const char* name : {"HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it.
    if (value != nullptr) environment_[name] = value;
  }
  trouble_ = "connecting to " + options_.ssh;
}

Tunnel::~Tunnel() { stop(); }

void Tunnel::stop() {
  eventfd_write(stop_.get(), 1);
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Tunnel::start(std::function<void()> changed) {
  changed_ = std::move(changed);
  thread_ = std::jthread([this](std::stop_token stop) { keep(stop); });
}

std::string Tunnel::url() const {
  std::lock_guard lock(mutex_);
  return url_;
}

std::string Tunnel::trouble() const {
  std::lock_guard lock(mutex_);
  return trouble_;
}

void Tunnel::keep(std::stop_token stop) {
  seconds pause{1};
  while (!stop.stop_requested()) {
    const SteadyTime began = options_.clock.steady();
    const Status ended = connect();
    if (!ended && ended.error().kind == ErrorKind::cancelled) return;
    if (!ended) went_down(ended.error());
    // Somebody else has taken our port for good: a new one is better than none.
    const bool taken = !ended && ended.error().message.find("in use") != std::string::npos;
    taken_ = taken ? taken_ + 1 : 0;
    if (taken_ >= kTakenMax) forget_port();
    if (options_.clock.steady() - began > options_.retry_max) pause = seconds(1);
    pollfd stopped{stop_.get(), POLLIN, 0};
    poll(&stopped, 1, static_cast<int>(milliseconds(pause).count()));
    pause = std::min(pause * 2, options_.retry_max);
  }
}

Status Tunnel::connect() {
  TRY(make_dirs(options_.folder, 0700));
  // One that a killed ssh left would keep the next from making its own.
  std::error_code ignored;
  fs::remove(control_, ignored);
  TRY_SET(std::vector<std::string> ssh, ssh_words(environment_["PATH"]));
  TRY_SET(Pipe in, make_pipe());
  TRY_SET(Pipe out, make_pipe());
  TRY_SET(Pipe err, make_pipe());
  SpawnOptions spawned;
  spawned.command = words(std::move(ssh));
  spawned.environment = environment_;
  spawned.folder = "/";
  spawned.stdin_fd = in.theirs.get();
  spawned.stdout_fd = out.theirs.get();
  spawned.stderr_fd = err.theirs.get();
  spawned.new_session = true;
  TRY_SET(Child child, spawn(spawned));
  for (Pipe* ends : {&in, &out, &err}) ends->theirs.reset();
  return std::unexpected(
      Talk(*this, std::move(child), std::move(in), std::move(out), std::move(err)).run());
}

std::vector<std::string> Tunnel::words(std::vector<std::string> ssh) const {
  for (const std::string& option :
       {std::string("LogLevel=INFO"),  // The port it was given is told at this one.
        std::string("ExitOnForwardFailure=yes"), std::string("ControlMaster=yes"),
        std::string("ControlPersist=no"), "ControlPath=" + control_.string()}) {
    ssh.insert(ssh.end(), {"-o", option});
  }
  ssh.insert(ssh.end(), {"-R", fmt::format("127.0.0.1:0:127.0.0.1:{}", options_.server_port),
                         options_.ssh, "--", for_any_shell(script())});
  return ssh;
}

std::string Tunnel::script() const {
  std::string text;
  const auto set = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}={}\n", name, shell_quoted(value));
  };
  set("ty_sha256", options_.program_sha256);
  set("ty_size", std::to_string(options_.program.size()));
  set("ty_port", std::to_string(kept_port()));
  set("ty_places", kUsualPlaces);
  set("ty_partition", options_.partition);
  if (!options_.slurm_conf.empty()) set("export SLURM_CONF", options_.slurm_conf);
  return text + std::string(embedded("slurm_relay.bash"));
}

uint16_t Tunnel::kept_port() const { return port_in(trim(read_file(port_file()).value_or("0"))); }

void Tunnel::forget_port() {
  std::error_code ignored;
  fs::remove(port_file(), ignored);
}

void Tunnel::came_up(const std::string& address, uint16_t port) {
  if (kept_port() != port) {
    if (const Status kept = write_file(port_file(), std::to_string(port) + "\n", 0600); !kept) {
      options_.log.warn("port not kept", {{"error", kept.error().message}});
    }
  }
  const bool v6 = address.find(':') != std::string::npos;
  {
    std::lock_guard lock(mutex_);
    url_ = fmt::format("http://{}:{}", v6 ? "[" + address + "]" : address, port);
    trouble_.clear();
    options_.log.info("login node connected", {{"login", options_.ssh}, {"url", url_}});
  }
  if (changed_) changed_();
}

void Tunnel::went_down(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    trouble_ = told(error);
    options_.log.warn("login node not connected",
                      {{"login", options_.ssh}, {"error", error.message}});
  }
  if (changed_) changed_();
}

}  // namespace trainyard::engine::slurm
