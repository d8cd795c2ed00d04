#include "engine/slurm/commands.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/fd.h"
#include "base/text.h"
#include "engine/slurm/batch.h"
#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"
#include "engine/slurm/ssh.h"

namespace trainyard::engine::slurm {
namespace {

// Times in seconds since 1970, which no time zone of a login node changes. For squeue only: what
// sbatch has, a job has.
constexpr const char* kTimes = "SLURM_TIME_FORMAT";
constexpr const char* kAllPlaces = "SLURM_BITSTR_LEN";  // 0: no list of an array's is cut off.
constexpr int kExitNotFound = 127;
constexpr seconds kGoodbye{3};
constexpr std::chrono::hours kStreamMax{48};  // Who asks for a stream ends it long before.
// On a login node: ends the program when the connection is gone, which alone would not.
constexpr const char* kEndWithInput =
    "exec 3<&0; \"$@\" 3<&- </dev/null & p=$!; "
    "{ cat <&3; kill $p; } >/dev/null 2>&1 & w=$!; "
    "exec 3<&-; wait $p; c=$?; kill $w 2>/dev/null; exit $c";
constexpr size_t kHash = 41;  // What ssh makes of %C, and a slash.

std::string path_or_usual(const std::string& given) {
  if (!given.empty()) return given;
  const char* ours = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it.
  return std::string(ours != nullptr ? ours : "") + ":" + kUsualPlaces;
}

// What every program of Slurm needs and a job may have.
std::map<std::string, std::string> clean_environment(const std::string& path,
                                                     const std::string& slurm_conf) {
  std::map<std::string, std::string> environment = {{"PATH", path}, {"LANG", "C.UTF-8"}};
  if (!slurm_conf.empty()) environment["SLURM_CONF"] = slurm_conf;
  if (const passwd* user = getpwuid(getuid()); user != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    environment["HOME"] = user->pw_dir;
    environment["USER"] = environment["LOGNAME"] = user->pw_name;
  }
  return environment;
}

// A folder where ssh can keep its sockets, made if need be. Without, each command logs in anew.
bool can_keep_sockets(const fs::path& folder) {
  if (folder.empty() || folder.native().size() + kHash > kControlPathMax) return false;
  return make_dirs(folder, 0700).has_value();
}

bool says_over(std::string_view errors) {
  for (const char* over : {"Invalid job id", "already completing", "already completed"}) {
    if (errors.find(over) != std::string::npos) return true;
  }
  return false;
}

class RealCommands : public Commands {
 public:
  explicit RealCommands(CommandOptions options)
      : options_(std::move(options)),
        path_(path_or_usual(options_.path)),
        environment_(clean_environment(path_, options_.slurm_conf)),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    // An agent's keys are what an ssh without a terminal has.
    const char* agent = std::getenv("SSH_AUTH_SOCK");  // NOLINT(concurrency-mt-unsafe)
    if (!options_.ssh.empty() && agent != nullptr) environment_["SSH_AUTH_SOCK"] = agent;
    keeps_ssh_ = !options_.ssh.empty() && options_.ssh_control.empty() &&
                 can_keep_sockets(options_.ssh_folder);
  }
  ~RealCommands() override {
    if (!keeps_ssh_) return;
    // The kept connection would outlive us for a while.
    const Result<std::string> ssh = find_program("ssh", path_);
    if (!ssh) return;
    const auto ended =
        run_program({.command = {*ssh, "-O", "exit", "-o", control_path(), options_.ssh},
                     .environment = environment_,
                     .timeout = kGoodbye});
    static_cast<void>(ended.has_value());
  }

  Result<int64_t> submit(const std::string& script) override {
    TRY_SET(const ProgramEnd end, run({"sbatch", "--parsable"}, script));
    if (end.timed_out) {
      const bool nobody = refusal_of(end.errors) == Refusal::nobody;
      return no_answer("sbatch", end, nobody ? ErrorKind::not_found : ErrorKind::unavailable);
    }
    if (end.exit_code == 0) {
      if (const auto number = parse_submitted(end.output)) return *number;
      return fail(ErrorKind::unavailable,
                  "sbatch: printed no job number: " + slurm_words(end.output + end.errors));
    }
    const std::string words = slurm_words(end.errors);
    if (end.exit_code > 128 || words.empty()) return failed("sbatch", end);
    switch (refusal_of(end.errors)) {
      case Refusal::final:
        return fail(ErrorKind::invalid, words);
      case Refusal::full:
        return fail(ErrorKind::conflict, words);
      case Refusal::nobody:
        return fail(ErrorKind::not_found, "sbatch: " + words);
      case Refusal::away:
        break;
    }
    return failed("sbatch", end);
  }

  Result<std::vector<Job>> queue() override {
    TRY_SET(const std::string text, ask({"squeue", "--me", "--noheader", "--states=all",
                                         "--Format=" + std::string(kQueueFormat)}));
    return parse_queue(text);
  }

  Result<std::vector<Node>> nodes() override {
    std::vector<std::string> command{"sinfo", "--Node", "--noheader",
                                     "--format=" + std::string(kNodesFormat)};
    if (!options_.partition.empty()) command.push_back("--partition=" + options_.partition);
    TRY_SET(const std::string text, ask(std::move(command)));
    return parse_nodes(text);
  }

  Status cancel(const std::string& name, int64_t number) override {
    std::vector<std::string> command{"scancel", "--me", "--name=" + name};
    if (number > 0) command.push_back(std::to_string(number));
    TRY_SET(const ProgramEnd end, run(command, {}));
    if (end.timed_out) return no_answer("scancel", end);
    if (end.exit_code == 0 || says_over(end.errors)) return {};
    return failed("scancel", end);
  }

  Result<std::string> ask(std::vector<std::string> command) override {
    const std::string name = command.front();
    TRY_SET(ProgramEnd end, run(std::move(command), {}));
    if (end.timed_out) return no_answer(name, end);
    if (end.exit_code != 0) return failed(name, end);
    return std::move(end.output);
  }

  Result<StreamEnd> stream(std::vector<std::string> command, const Stream& stream) override {
    const std::string name = command.front();
    ProgramOptions program;
    program.timeout = kStreamMax;
    program.stop_fd = stop_.get();
    program.environment = environment_;
    program.print = stream.print;
    program.wanted = stream.wanted;
    if (options_.ssh.empty()) {
      TRY_SET(command.front(), found_here(name));
      program.command = std::move(command);
    } else {
      command.insert(command.begin(), {"/bin/sh", "-c", kEndWithInput, "sh"});
      TRY_SET(program.command, over_ssh(command));
    }
    TRY_SET(ProgramEnd end, run_program(program));
    // srun says on its standard error why it ends with anything but 0.
    const bool its_own = end.errors.find(name + ":") != std::string::npos;
    if (!options_.ssh.empty() && end.exit_code == kExitOfSsh && !its_own) {
      return std::unexpected(ssh_error(options_.ssh, end.errors));
    }
    return StreamEnd{end.exit_code, std::move(end.errors)};
  }

  void stop() override { eventfd_write(stop_.get(), 1); }

 private:
  // Here, or on the login node.
  Result<ProgramEnd> run(std::vector<std::string> command, std::string input) const {
    ProgramOptions program;
    program.input = std::move(input);
    program.timeout = options_.timeout;
    program.stop_fd = stop_.get();
    program.environment = environment_;
    const std::string name = command.front();
    if (name == "squeue") {
      program.environment[kTimes] = "%s";
      program.environment[kAllPlaces] = "0";
    }
    if (options_.ssh.empty()) {
      TRY_SET(command.front(), found_here(name));
      program.command = std::move(command);
      return run_program(program);
    }
    TRY_SET(program.command, over_ssh(command));
    TRY_SET(ProgramEnd end, run_program(program));
    if (end.exit_code == kExitOfSsh && !end.timed_out) {
      return std::unexpected(ssh_error(options_.ssh, end.errors));
    }
    if (end.exit_code == kExitNotFound) {
      return fail(ErrorKind::not_found, name + " is not on " + options_.ssh,
                  "Slurm's programs must be in the PATH of: ssh " + options_.ssh + " COMMAND");
    }
    return end;
  }

  Result<std::string> found_here(const std::string& name) const {
    Result<std::string> found = find_program(name, path_);
    // Slurm's programs would look for it for a minute.
    if (found && !options_.slurm_conf.empty() && !fs::exists(options_.slurm_conf)) {
      return fail(ErrorKind::not_found, "SLURM_CONF: there is no " + options_.slurm_conf,
                  "Put it there, or make the compute anew with SLURM_CONF set to the right file.");
    }
    if (found) return found;
    return fail(ErrorKind::not_found, name + " is not on this machine",
                "Install Slurm's programs (Debian: slurm-client) and set SLURM_CONF, or name a "
                "login node that has them: --ssh USER@LOGIN.");
  }

  Result<std::vector<std::string>> over_ssh(const std::vector<std::string>& command) const {
    TRY_SET(std::vector<std::string> words, ssh_words(path_));
    std::vector<std::string> kept;
    if (!options_.ssh_control.empty()) {
      kept = {"ControlMaster=no", "ControlPath=" + options_.ssh_control.string()};
    } else if (keeps_ssh_) {
      kept = {"ControlMaster=auto", "ControlPersist=120", control_path()};
    }
    for (const std::string& option : kept) words.insert(words.end(), {"-o", option});
    // Nothing of a session's variables reaches Slurm or a job, as here.
    std::string text = "exec env -i HOME=\"$HOME\" USER=\"$USER\" LOGNAME=\"$USER\" ";
    text += "PATH=\"$PATH:" + std::string(kUsualPlaces) + "\" LANG=C.UTF-8";
    if (command.front() == "squeue") text += fmt::format(" {}=%s {}=0", kTimes, kAllPlaces);
    // A site may set it for all who log in.
    text += options_.slurm_conf.empty() ? " ${SLURM_CONF:+\"SLURM_CONF=$SLURM_CONF\"}"
                                        : " SLURM_CONF=" + shell_quoted(options_.slurm_conf);
    for (const std::string& word : command) text += " " + shell_quoted(word);
    words.insert(words.end(), {options_.ssh, "--", for_any_shell(text)});
    return words;
  }

  std::string control_path() const {
    return "ControlPath=" + (options_.ssh_folder / "%C").string();
  }

  std::unexpected<Error> no_answer(const std::string& name, const ProgramEnd& end,
                                   ErrorKind kind = ErrorKind::unavailable) const {
    const std::string words = slurm_words(end.errors);
    return fail(kind, name + ": no answer in " + std::to_string(options_.timeout.count()) + " s" +
                          (words.empty() ? "" : ": " + words));
  }
  static std::unexpected<Error> failed(const std::string& name, const ProgramEnd& end) {
    const std::string words = slurm_words(end.errors);
    return fail(
        ErrorKind::unavailable,
        name + ": " + (words.empty() ? "ended with code " + std::to_string(end.exit_code) : words));
  }

  const CommandOptions options_;
  const std::string path_;
  std::map<std::string, std::string> environment_;
  bool keeps_ssh_ = false;
  const Fd stop_;
};

}  // namespace

Status Commands::check() {
  TRY(ask({"sbatch", "--version"}));
  return {};
}

// With a filter by name, scancel (22.05) cancels all that waits of an array and not the one place:
// so first we look whether it is the array we mean.
Status Commands::cancel_place(const std::string& name, int64_t number, int index) {
  TRY_SET(const std::string text,
          ask({"squeue", "--me", "--noheader", "--name=" + name, "--Format=JobArrayID:"}));
  bool there = false;
  for (const std::string& line : split(text, '\n')) {
    const auto places = parse_places(trim(line));
    if (!places || places->number != number) continue;
    const std::vector<int>& all = places->indexes;
    there = there || all.empty() || std::ranges::find(all, index) != all.end();
  }
  if (!there) return {};
  const auto done = ask({"scancel", fmt::format("{}_{}", number, index)});
  if (!done && !says_over(done.error().message)) return std::unexpected(done.error());
  return {};
}

CommandOptions command_options(const ComputeSpec& spec, const fs::path& ssh_folder) {
  CommandOptions options;
  options.ssh = spec.ssh;
  options.slurm_conf = spec.slurm_conf;
  options.partition = spec.partition;
  options.ssh_folder = ssh_folder;
  return options;
}

std::unique_ptr<Commands> make_commands(CommandOptions options) {
  return std::make_unique<RealCommands>(std::move(options));
}

}  // namespace trainyard::engine::slurm
