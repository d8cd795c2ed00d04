#include "agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <set>
#include <thread>

#include "base/guarded.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/variables.h"
#include "base/version.h"
#include "client/exec.h"
#include "client/machine.h"
#include "engine/local.h"
#include "engine/local_folder.h"
#include "engine/local_machine.h"
#include "env/python.h"
#include "wire/json.h"
#include "wire/urls.h"

namespace trainyard::agent {
namespace {

constexpr seconds kWait{20};  // For orders, before we ask again: a sign of life.
constexpr milliseconds kPauseFirst{100};
constexpr milliseconds kPauseMax{5000};
constexpr seconds kSupervisorEnds{30};  // From the word that it is not wanted to its kill.
constexpr int kLockTries = 100;
constexpr int kLockPauseMs = 20;
constexpr const char* kEvictedFile = "evicted";  // supervisor/layout.h

// One daemon a place. Who looks whether there is one holds the lock for a moment.
Result<Fd> take_lock(const Place& place, const std::string& token) {
  TRY_SET(Fd fd, open_file(place.lock(), O_RDWR | O_CREAT, 0600));
  for (int tries = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (tries >= kLockTries) {
      return fail(ErrorKind::conflict, "this machine works for " + place.server +
                                           " already, as process " +
                                           std::to_string(daemon_of(place).pid));
    }
    ::poll(nullptr, 0, kLockPauseMs);
  }
  if (::ftruncate(fd.get(), 0) != 0) return fail_errno(errno, "write the lock");
  TRY(write_all_at(fd.get(), lock_text(::getpid(), token), 0, "write the lock"));
  return fd;
}

const std::string& token_of(const RunOptions& options) {
  return options.place.personal ? options.token : options.place.credential;
}

WallTime touched(const fs::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return {};
  return WallTime(seconds(status.st_mtim.tv_sec));
}

class Agent {
 public:
  Agent(const RunOptions& options, http::Address address, Log& log, Clock& clock)
      : options_(options),
        clock_(clock),
        log_(log),
        client_(std::move(address), token_of(options)),
        execs_(clock,
               {.address = client_.address(),
                .token = token_of(options),
                .url = std::string(wire::kApi) + "/machines/" + options.place.key + "/execs/",
                .query = {}}) {
    report_.session = new_secret("").substr(0, 12);
    report_.facts = machine_facts();
  }

  Status open();
  Status work(std::function<void(const Status&)> ready);
  void stop() {
    stop_source_.request_stop();
    client_.interrupt();
  }

 private:
  struct Held {
    std::optional<SteadyTime> unwanted;  // Since when.
    bool killed = false;
  };

  void take_up(const AttemptId& attempt);
  void compose();
  void carry_out(const MachineOrders& orders);
  void start(Assignment assignment);
  void settle_unwanted();
  bool idle();
  // What to do about an error: true, it is the end.
  bool ends(const Error& error) const;
  void wait(milliseconds time) {
    clock_.sleep_until(clock_.steady() + time, stop_source_.get_token());
  }

  const RunOptions& options_;
  Clock& clock_;
  Log& log_;
  http::Client client_;
  client::ExecRunner execs_;
  std::unique_ptr<engine::Engine> engine_;
  std::map<AttemptId, Held> held_;
  Guarded<std::map<AttemptId, std::string>> gone_;  // Why.
  MachineReport report_;
  SteadyTime worked_{};  // When there was last something to do.
  Fd leaving_;           // start.lock, while we go.
  std::stop_source stop_source_;
  Guarded<std::vector<std::string>> pythons_;  // Of this machine, once they are known.
  std::jthread probing_;
};

Status Agent::open() {
  TRY_SET(engine_, engine::make_local({.home = options_.place.home(),
                                       .clock = clock_,
                                       .log = log_,
                                       .binary = options_.binary}));
  engine_->on_gone([this](const AttemptId& attempt, const engine::Engine::Going& going) {
    gone_.with([&](auto& gone) { gone[attempt] = going.why; });
    client_.interrupt();  // To be told at once.
  });
  // Each interpreter is asked by starting it: nobody waits for that.
  probing_ = std::jthread([this](const std::stop_token& stop) {
    const env::Settings settings{.variables = own_variables("TRAINYARD_"),
                                 .cache = options_.place.folder / "cache",
                                 .blobs = {},
                                 .engine_socket = {},
                                 .registry_password = {}};
    auto found = env::python_platforms(settings, [&] { return stop.stop_requested(); });
    if (stop.stop_requested()) return;
    pythons_.with([&](auto& pythons) { pythons = std::move(found); });
    client_.interrupt();
  });
  worked_ = clock_.steady();
  execs_.open({"/", own_variables("TRAINYARD_")});
  std::vector<AttemptId> found;
  std::error_code error;
  for (fs::directory_iterator at(options_.place.home().node(), error), end; !error && at != end;
       at.increment(error)) {
    if (const auto attempt = attempt_from(at->path().filename().string())) {
      found.push_back(*attempt);
    }
  }
  for (const AttemptId& attempt : found) take_up(attempt);
  return {};
}

// Of an earlier daemon. A supervisor that died while there was none to see it went down with the
// machine: the next one on its folder, which sends what is left, says so.
void Agent::take_up(const AttemptId& attempt) {
  const fs::path folder = options_.place.home().attempt(attempt);
  const Result<engine::LockFile> state = engine::read_lock(folder);
  const bool died = state && state->owner == 0 && !state->done && !state->mark.empty();
  if (died && !options_.place.personal) {
    const std::string why = "machine " + options_.place.name + " went down";
    if (const Status written = write_file(folder / kEvictedFile, why); !written) {
      log_.warn("not marked", {{"attempt", attempt.str()}, {"error", written.error().message}});
    }
  }
  held_.try_emplace(attempt);
  const Status recovered = engine_->recover(attempt);
  log_.info("attempt taken up", {{"attempt", attempt.str()}, {"died", died ? 1 : 0}});
  if (recovered) return;
  gone_.with([&](auto& gone) { gone[attempt] = recovered.error().message; });
}

Status Agent::work(std::function<void(const Status&)> ready) {
  client::MachineApi api(client_);
  milliseconds pause = kPauseFirst;
  const std::stop_token stop = stop_source_.get_token();
  const seconds wait_max = options_.idle > seconds(0) ? std::min(kWait, options_.idle) : kWait;
  while (!stop.stop_requested()) {
    compose();
    const bool waits = !held_.empty() && std::any_of(held_.begin(), held_.end(), [](const auto& h) {
      return h.second.unwanted.has_value();
    });
    const auto orders = api.poll(options_.place.key, report_,
                                 ready   ? seconds(0)
                                 : waits ? seconds(1)
                                         : wait_max);
    const bool interrupted = !orders && orders.error().kind == ErrorKind::cancelled;
    if (ready && !interrupted) {
      const bool fine = orders || !ends(orders.error());
      std::exchange(ready, {})(fine ? Status() : std::unexpected(orders.error()));
    }
    if (orders) {
      pause = kPauseFirst;
      if (*orders) carry_out(**orders);
    } else if (!interrupted) {
      log_.warn("no orders", {{"error", orders.error().message}});
      if (ends(orders.error())) return std::unexpected(orders.error());
      wait(pause);
      pause = std::min(pause * 2, kPauseMax);
    }
    settle_unwanted();
    if (idle()) return {};
  }
  return {};
}

void Agent::compose() {
  ++report_.number;
  pythons_.with([&](const auto& pythons) { report_.facts.pythons = pythons; });
  report_.held.clear();
  gone_.with([&](const auto& gone) {
    for (const auto& [attempt, held] : held_) {
      const bool live = engine_->inspect(attempt) == engine::Placement::live;
      const auto why = gone.find(attempt);
      report_.held.push_back({.id = attempt,
                              .live = live,
                              .why = live || why == gone.end() ? std::string() : why->second});
    }
  });
}

void Agent::carry_out(const MachineOrders& orders) {
  const std::set<AttemptId> keep(orders.keep.begin(), orders.keep.end());
  for (auto& [attempt, held] : held_) {
    if (keep.contains(attempt) || held.unwanted) continue;
    held.unwanted = clock_.steady();
    log_.info("attempt released", {{"attempt", attempt.str()}});
  }
  for (const AttemptId& attempt : orders.kill) {
    if (!held_.contains(attempt)) continue;
    if (const Status killed = engine_->kill(attempt); !killed) {
      log_.error("kill failed", {{"attempt", attempt.str()}, {"error", killed.error().message}});
    }
  }
  for (const Assignment& assignment : orders.start) start(assignment);
  report_.seen = orders.version;
  report_.execs = orders.execs;
  execs_.offer(orders.execs);
}

void Agent::start(Assignment assignment) {
  const AttemptId attempt = assignment.id();
  if (held_.contains(attempt)) return;
  // Nothing of the server's machine is here, and we know a way to it.
  assignment.server_socket.clear();
  assignment.blobs.clear();
  assignment.environments.clear();
  assignment.server_url = options_.place.server;
  held_.try_emplace(attempt);
  const Status placed = engine_->place(assignment);
  log_.info("attempt placed", {{"attempt", attempt.str()}, {"started", placed ? 1 : 0}});
  if (placed) return;
  gone_.with([&](auto& gone) {
    gone[attempt] = "its supervisor could not be started: " + placed.error().message;
  });
}

// A supervisor that is not wanted learns so from the server and ends; its folder goes after it.
void Agent::settle_unwanted() {
  const SteadyTime now = clock_.steady();
  for (auto at = held_.begin(); at != held_.end();) {
    auto& [attempt, held] = *at;
    const bool live = engine_->inspect(attempt) == engine::Placement::live;
    if (!held.unwanted || live) {
      if (held.unwanted && now - *held.unwanted >= kSupervisorEnds && !held.killed) {
        held.killed = true;
        [[maybe_unused]] const Status killed = engine_->kill(attempt);
      }
      ++at;
      continue;
    }
    if (const Status released = engine_->release(attempt); !released) {
      log_.warn("folder not removed",
                {{"attempt", attempt.str()}, {"error", released.error().message}});
    }
    gone_.with([&](auto& gone) { gone.erase(attempt); });
    at = held_.erase(at);
  }
}

// Whoever wants us touches `wanted` under start.lock: who does so later finds us gone, and starts
// another.
bool Agent::idle() {
  const SteadyTime now = clock_.steady();
  if (!held_.empty() || options_.idle <= seconds(0)) {
    worked_ = now;
    return false;
  }
  if (now - worked_ < options_.idle) return false;
  Result<Fd> fd = open_file(options_.place.start_lock(), O_RDWR | O_CREAT, 0600);
  if (!fd || ::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (clock_.wall() - touched(options_.place.wanted()) < options_.idle) return false;
  leaving_ = *std::move(fd);
  log_.info("idle");
  return true;
}

bool Agent::ends(const Error& error) const {
  return error.kind == ErrorKind::denied || error.kind == ErrorKind::not_found;
}

Status tell_ready(int fd, const Status& status) {
  if (fd < 0) return {};
  const std::string word = status ? "ok\n" : wire::dump(wire::error_to_json(status.error())) + "\n";
  return write_all(fd, word, "ready");
}

}  // namespace

MachineFacts machine_facts() {
  const engine::Capacity has = engine::machine_capacity();
  return {.host = host_name(),
          .version = std::string(kVersion),
          .cpus = has.cpus,
          .memory_bytes = has.memory_bytes,
          .gpus = has.gpus};
}

Status run(const RunOptions& options) {
  TRY_SET(const Fd arrived, watch_for_end());
  const Fd over(::eventfd(0, EFD_CLOEXEC));
  if (!over) return fail_errno(errno, "make an eventfd");

  Fd ready(options.ready_fd);
  const auto say = [&](const Status& status) {
    [[maybe_unused]] const Status told = tell_ready(ready.get(), status);
    ready.reset();
  };
  const auto begin = [&]() -> Result<Fd> {
    TRY(make_dirs(options.place.log().parent_path(), 0700));
    return take_lock(options.place, token_of(options));
  };
  const Result<Fd> lock = begin();
  const Result<http::Address> address = http::Address::parse_url(options.place.server);
  if (!lock || !address) {
    Error error = lock ? address.error() : lock.error();
    say(std::unexpected(error));
    return std::unexpected(std::move(error));
  }
  MonotoneClock clock;
  const std::unique_ptr<Log> log = open_file_log(clock, {.path = options.place.log()});
  log->info("machine works", {{"server", options.place.server}, {"name", options.place.name}});
  Agent agent(options, *address, *log, clock);
  TRY(agent.open());
  std::jthread watcher([&] {
    pollfd waits[] = {{arrived.get(), POLLIN, 0}, {over.get(), POLLIN, 0}};
    while (::poll(waits, std::size(waits), -1) < 0 && errno == EINTR) {
    }
    if (waits[0].revents != 0) agent.stop();
  });
  const Status worked = agent.work(say);
  // Whoever looks for us now finds nobody, and starts the next, which waits for our end.
  [[maybe_unused]] const int cleared = ::ftruncate(lock->get(), 0);
  ::eventfd_write(over.get(), 1);
  watcher.join();
  log->info("machine stops", {{"why", worked ? "" : worked.error().message}});
  return worked;
}

}  // namespace trainyard::agent
