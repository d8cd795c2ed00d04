#include "cli/connect.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "api/lock.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/settings.h"
#include "wire/json.h"

namespace trainyard::cli {
namespace {

constexpr seconds kStartMax{10};        // From exec to a server that listens.
constexpr seconds kOthersStartMax{20};  // While somebody else starts it.
constexpr milliseconds kBetweenTries{10};
constexpr size_t kErrorTail = 2000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path error_file(const Home& home) { return home.log().parent_path() / "server.err"; }

Status wait_ready(const Home& home, int fd, Clock& clock) {
  const SteadyTime until = clock.steady() + kStartMax;
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - clock.steady());
    if (left <= milliseconds(0)) {
      return fail(ErrorKind::unavailable, "start the server: not ready within 10 s",
                  "See " + error_file(home).string() + " and " + home.log().string() + ".");
    }
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) {
      text.append(buffer, static_cast<size_t>(got));
      // An error ends with the pipe; a word of readiness is enough by its first byte.
      if (text.front() == '{' && text.back() != '\n') continue;
      return decode_ready(text);
    }
    if (!text.empty()) return decode_ready(text);
    return fail(ErrorKind::unavailable, "start the server: it ended at once",
                last_words(home).empty() ? "" : "It said: " + last_words(home));
  }
}

Status start_server(const Home& home, Clock& clock, std::span<const std::string> words) {
  TRY(prepare_home(home));
  TRY_SET(const fs::path self, self_path());
  TRY_SET(const Fd errors, open_file(error_file(home), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  const Fd ready(ends[0]);
  Fd ours(ends[1]);
  SpawnOptions options;
  options.command = {self.string(),
                     "server",
                     "run",
                     "--home",
                     home.root().string(),
                     "--ready-fd",
                     std::to_string(ours.get())};
  options.command.insert(options.command.end(), words.begin(), words.end());
  options.folder = "/";  // A daemon must not keep the user's folder from being unmounted.
  options.stdout_fd = errors.get();
  options.stderr_fd = errors.get();
  options.kept_fds = {ours.get()};
  options.new_session = true;
  TRY(spawn(options));
  ours.reset();
  return wait_ready(home, ready.get(), clock);
}

// A server of this machine has the home's lock: one started by hand that will listen soon, or one
// on its way out. Either is worth waiting for; a lock held elsewhere is not.
bool is_held_here(const Home& home) {
  const api::LockHolder holder = api::read_lock(home);
  return holder.pid > 0 && holder.host == host_name() && holder.boot_id == boot_id() &&
         (kill(static_cast<pid_t>(holder.pid), 0) == 0 || errno == EPERM);
}

http::Address address_of(const Home& home) {
  http::Address address;
  address.unix_socket = home.socket();
  return address;
}

}  // namespace

Result<Place> find_place(std::string_view server_flag, std::string_view home_flag, Saved saved) {
  TRY_SET(Home home, find_home(home_flag));
  Place place{std::move(home), std::string(server_flag), {}};
  if (place.url.empty() && home_flag.empty()) place.url = environment("TRAINYARD_SERVER");
  if (place.remote()) place.token = environment("TRAINYARD_TOKEN");
  const bool chosen = !home_flag.empty() || !environment("TRAINYARD_HOME").empty();
  const bool needs_settings = place.remote() ? place.token.empty() : !chosen;
  if (saved == Saved::ignore || !needs_settings) return place;
  TRY_SET(const Settings settings, load_settings());
  if (place.url.empty()) place.url = settings.server;
  const auto server = settings.servers.find(place.url);
  if (server != settings.servers.end()) place.token = server->second.token;
  return place;
}

Result<http::Client> connect(const Place& place) {
  http::Address address = address_of(place.home);
  if (place.remote()) {
    TRY_SET(address, http::Address::parse_url(place.url));
  }
  http::Client client(std::move(address), place.token);
  TRY(client.connect());
  return client;
}

Result<http::Client> connect_or_start(const Place& place, Clock& clock,
                                      std::span<const std::string> words) {
  auto client = connect(place);
  if (client || place.remote()) return client;
  TRY(prepare_home(place.home));
  // The folder itself is the lock: whoever has it starts the server, the others wait for the
  // socket.
  TRY_SET(const Fd folder, open_file(place.home.root(), O_RDONLY | O_DIRECTORY));
  const SteadyTime until = clock.steady() + kOthersStartMax;
  for (;;) {
    const bool locked = flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
    client = connect(place);
    if (client) return client;
    const bool late = clock.steady() >= until;
    if (locked) {
      Status started = start_server(place.home, clock, words);
      flock(folder.get(), LOCK_UN);
      if (started) return connect(place);
      const bool wait = started.error().kind == ErrorKind::conflict && is_held_here(place.home);
      if (!wait || late) return std::unexpected(std::move(started).error());
    }
    if (late) return client;
    clock.sleep_until(clock.steady() + kBetweenTries, {});
  }
}

std::string last_words(const Home& home) {
  std::string text = read_file(error_file(home)).value_or("");
  if (text.size() > kErrorTail) text.erase(0, text.size() - kErrorTail);
  return std::string(trim(text));
}

Status decode_ready(std::string_view text) {
  if (!text.starts_with('{')) return {};
  return std::unexpected(wire::error_from_answer(wire::http_status(ErrorKind::internal), text));
}

}  // namespace trainyard::cli
