#include "cli/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "agent/agent.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "base/variables.h"
#include "client/machine.h"
#include "wire/json.h"

namespace trainyard::cli {
namespace {

constexpr seconds kMachineStartMax{20};
constexpr seconds kMachineStopMax{20};
constexpr seconds kIdle{600};  // A person's own daemon ends after so long without work.
constexpr std::string_view kAttemptPrefix = "tya_";

struct Pipe {
  Fd reading;
  Fd writing;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Status wait_ready(const agent::Place& place, int fd, Clock& clock) {
  const SteadyTime until = clock.steady() + kMachineStartMax;
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - clock.steady());
    if (left <= milliseconds(0)) break;
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) {
      text.append(buffer, static_cast<size_t>(got));
      if (text.back() != '\n') continue;
    }
    if (!text.empty()) return decode_ready(text);
    return fail(ErrorKind::unavailable, "start this machine's daemon: it ended at once",
                std::string(trim(read_file(place.errors()).value_or(""))));
  }
  return fail(ErrorKind::unavailable, "start this machine's daemon: not ready within 20 s",
              "See " + place.log().string() + ".");
}

Status start_daemon(const Home& home, const agent::Place& place, const std::string& token,
                    Clock& clock) {
  TRY(make_dirs(place.log().parent_path(), 0700));
  TRY_SET(const fs::path self, self_path());
  TRY_SET(const Fd errors, open_file(place.errors(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  TRY_SET(Pipe ready, make_pipe());
  TRY_SET(Pipe secret, make_pipe());
  SpawnOptions options;
  options.command = {self.string(),
                     "node",
                     "run",
                     "--home",
                     home.root().string(),
                     "--place",
                     place.folder.filename().string(),
                     "--ready-fd",
                     std::to_string(ready.writing.get())};
  options.kept_fds = {ready.writing.get()};
  if (place.personal) {
    TRY(write_all(secret.writing.get(), token, "hand over the token"));
    options.command.insert(options.command.end(),
                           {"--token-fd", std::to_string(secret.reading.get()), "--idle",
                            std::to_string(kIdle.count())});
    options.kept_fds.push_back(secret.reading.get());
  }
  // Its supervisors inherit it: without what is secret.
  options.environment = own_variables("TRAINYARD_TOKEN");
  options.folder = "/";  // A daemon must not keep the user's folder from being unmounted.
  options.stdout_fd = errors.get();
  options.stderr_fd = errors.get();
  options.new_session = true;
  TRY(spawn(options));
  ready.writing.reset();
  secret.writing.reset();
  return wait_ready(place, ready.reading.get(), clock);
}

Result<Fd> lock_start(const agent::Place& place) {
  TRY(make_dirs(place.folder, 0700));
  TRY_SET(Fd fd, open_file(place.start_lock(), O_RDWR | O_CREAT, 0600));
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail_errno(errno, "lock " + place.start_lock().string());
  }
  return fd;
}

}  // namespace

Status ensure_daemon(const Home& home, const agent::Place& place, const std::string& token,
                     Clock& clock) {
  TRY_SET(const Fd lock, lock_start(place));
  TRY(write_file(place.wanted(), "", 0600));
  const agent::Daemon daemon = agent::daemon_of(place);
  if (daemon.pid != 0) {
    // One with another token, or with the credential of an earlier join, will not be let in.
    const std::string& shown = place.personal ? token : place.credential;
    if (daemon.token == sha256(shown).hex()) return {};
    TRY(stop_daemon(place, clock));
  }
  return start_daemon(home, place, token, clock);
}

Status stop_daemon(const agent::Place& place, Clock& clock) {
  const pid_t pid = agent::daemon_of(place).pid;
  if (pid == 0) return {};
  const Result<Fd> process = open_pidfd(pid);
  if (!process) return {};
  ::kill(pid, SIGTERM);
  const SteadyTime until = clock.steady() + kMachineStopMax;
  while (clock.steady() < until) {
    pollfd ended{process->get(), POLLIN, 0};
    if (::poll(&ended, 1, 1000) > 0) return {};
  }
  return fail(ErrorKind::unavailable,
              "the daemon, process " + std::to_string(pid) + ", does not end within 20 s");
}

Result<OwnMachine> own_machine(Context& context, const Place& server) {
  TRY(prepare_home(server.home));
  TRY_SET(const std::string uid, agent::machine_uid(server.home));
  const MachineFacts facts = agent::machine_facts();
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json machine, client::MachineApi(api->http()).own(uid, facts));
  agent::Place place{.server = server.url, .personal = true};
  TRY_SET(place.key, wire::string_member(machine, "key"));
  TRY_SET(place.name, wire::string_member(machine, "name"));
  place.folder = agent::place_folder(server.home, server.url, place.key);
  if (!agent::read_place(place.folder)) TRY(agent::write_place(place));
  TRY(ensure_daemon(server.home, place, server.token, context.clock()));
  return OwnMachine{place.key, facts.gpus.size()};
}

Status settle_local(Context& context, RunSpec& spec) {
  spec.host.clear();  // Of a run that is made again, perhaps from elsewhere.
  TRY_SET(const Place where, context.place());
  // Inside a run `local` is where that run is; the server knows.
  if (spec.target != kLocalQueue || !where.remote() || where.token.starts_with(kAttemptPrefix)) {
    return {};
  }
  TRY_SET(const OwnMachine own, own_machine(context, where));
  spec.host = own.key;
  if (spec.resources.gpus > 0 && own.gpus == 0) {
    context.warn("this machine has no GPU to give out: the run goes on without");
    spec.resources.gpus = 0;
  }
  return {};
}

}  // namespace trainyard::cli
