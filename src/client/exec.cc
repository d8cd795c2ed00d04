#include "client/exec.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/process.h"
#include "base/text.h"
#include "wire/json.h"

namespace trainyard::client {
namespace {

constexpr size_t kRunningMax = 16;
constexpr size_t kKnownMax = 10'000;
constexpr size_t kPiece = 256 * 1024;
constexpr milliseconds kLook{50};  // Between two looks whether it has ended.
constexpr seconds kAskEvery{1};    // Whether anybody still wants it, of one that says nothing.
constexpr int kExitTimeout = 124;  // As timeout(1) has it.
constexpr int kExitNotFound = 127;
constexpr int kExitFailed = 126;

// By the PATH it would see, as a shell does; empty: there is none.
std::string find_in(const ExecSetting& setting, const std::string& name) {
  if (name.find('/') != std::string::npos) return (setting.folder / name).string();
  const auto path = setting.variables.find("PATH");
  for (const std::string& folder :
       split(path != setting.variables.end() ? path->second : "/usr/bin:/bin", ':')) {
    const fs::path file = setting.folder / folder / name;
    if (::access(file.c_str(), X_OK) == 0) return file.string();
  }
  return {};
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

ExecRunner::~ExecRunner() {
  std::map<std::string, Running> all;
  {
    std::lock_guard lock(mutex_);
    setting_.reset();
    all = std::exchange(running_, {});
  }
  for (auto& [id, running] : all) running.thread->request_stop();
}

void ExecRunner::open(ExecSetting setting) {
  std::lock_guard lock(mutex_);
  setting_ = std::move(setting);
  for (const std::string& id : std::exchange(waiting_, {})) start(id);
}

void ExecRunner::offer(const std::vector<std::string>& ids) {
  std::lock_guard lock(mutex_);
  // Those that have ended need not be kept; not by themselves, for nobody ends a thread from
  // within.
  std::erase_if(running_, [](const auto& one) { return one.second.over; });
  for (const std::string& id : ids) {
    if (known_.size() >= kKnownMax) known_.clear();
    if (!known_.insert(id).second) continue;
    if (setting_) {
      start(id);
    } else {
      waiting_.push_back(id);
    }
  }
}

void ExecRunner::start(const std::string& id) {
  if (running_.size() >= kRunningMax) return;  // Who asked learns that nobody took it.
  running_[id].thread.emplace([this, id](std::stop_token stop) {
    run(id, stop);
    std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    if (found != running_.end()) found->second.over = true;
  });
}

void ExecRunner::run(const std::string& id, std::stop_token stop) {
  http::Client client(options_.address, options_.token);
  const Result<std::string> taken = send(client, id + "/take", "");
  const Result<wire::Json> json = taken ? wire::parse(*taken) : wire::Json();
  if (!taken || !json || !json->is_object() || !json->contains("command")) return;
  std::vector<std::string> command;
  for (const wire::Json& word : (*json)["command"]) {
    if (word.is_string()) command.push_back(word.get<std::string>());
  }
  const seconds timeout(wire::int_member(*json, "timeoutSeconds", 60).value_or(60));
  uint64_t sent = 0;
  const int code =
      command.empty() ? kExitNotFound : execute(id, client, command, timeout, stop, sent);
  [[maybe_unused]] const Result<std::string> told = send(
      client, id + "/output?from=" + std::to_string(sent) + "&exit=" + std::to_string(code), "");
}

int ExecRunner::execute(const std::string& id, http::Client& client,
                        const std::vector<std::string>& command, seconds timeout,
                        std::stop_token stop, uint64_t& sent) {
  bool unwanted = false;
  SteadyTime said = clock_.steady();
  const auto say = [&](const std::string& bytes) {
    const Result<std::string> told =
        send(client, id + "/output?from=" + std::to_string(sent), bytes);
    sent += bytes.size();
    said = clock_.steady();
    const Result<wire::Json> json = told ? wire::parse(*told) : wire::Json();
    unwanted = json && json->is_object() && wire::bool_member(*json, "stop").value_or(false);
  };
  ExecSetting setting;
  {
    std::lock_guard lock(mutex_);
    if (!setting_) return kExitFailed;
    setting = *setting_;
  }
  SpawnOptions options{.command = command, .environment = setting.variables};
  options.command.front() = find_in(setting, command.front());
  options.folder = setting.folder;
  options.new_session = true;  // And a group, to be killed whole.
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return kExitFailed;
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  options.stdout_fd = writing.get();
  options.stderr_fd = writing.get();
  const Result<Child> child = options.command.front().empty()
                                  ? fail(ErrorKind::not_found, command.front() + ": not found")
                                  : spawn(options);
  if (!child) {
    say("error: " + child.error().message + "\n");
    return child.error().kind == ErrorKind::not_found ? kExitNotFound : kExitFailed;
  }
  writing.reset();
  const PrintFilter filter = setting.make_filter ? setting.make_filter() : PrintFilter();
  const auto print = [&](std::string_view bytes, bool last) {
    const std::string shown = filter ? filter(bytes, last) : std::string(bytes);
    if (!shown.empty()) say(shown);
  };
  const SteadyTime until = clock_.steady() + timeout;
  int status = 0;
  bool ended = false;
  bool open = true;
  bool late = false;
  std::string buffer(kPiece, '\0');
  while (open || !ended) {
    pollfd wait{reading.get(), POLLIN, 0};
    const int ready = ::poll(&wait, open ? 1 : 0, static_cast<int>(kLook.count()));
    if (open && ready > 0) {
      const ssize_t got = ::read(reading.get(), buffer.data(), buffer.size());
      open = got > 0 || (got < 0 && errno == EINTR);
      if (got > 0) print(std::string_view(buffer).substr(0, static_cast<size_t>(got)), false);
    }
    // What it leaves in the background holds the pipe: it ends with the command.
    if (!ended && ::waitpid(child->pid, &status, WNOHANG) == child->pid) {
      ended = true;
      ::kill(-child->pid, SIGKILL);
    }
    late = clock_.steady() >= until;
    if (!ended && clock_.steady() - said >= kAskEvery) say("");
    if (!ended && (late || unwanted || stop.stop_requested())) {
      ::kill(-child->pid, SIGKILL);
      while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
      }
      print("", true);
      if (late) say("error: it did not end within " + std::to_string(timeout.count()) + " s\n");
      return late ? kExitTimeout : code_of(status);
    }
    if (ended && ready == 0) break;
  }
  print("", true);
  return code_of(status);
}

Result<std::string> ExecRunner::send(http::Client& client, const std::string& rest,
                                     std::string body) {
  std::string target = options_.url + rest;
  if (!options_.query.empty()) {
    target += (target.find('?') == std::string::npos ? "?" : "&") + options_.query;
  }
  http::ClientRequest request{.method = http::Method::post, .target = std::move(target)};
  request.headers["content-type"] = "application/octet-stream";
  request.body = std::move(body);
  TRY_SET(http::Response response, client.send(request));
  if (response.status >= 200 && response.status <= 299) return std::move(response.body);
  return std::unexpected(wire::error_from_answer(response.status, response.body));
}

}  // namespace trainyard::client
