#include "engine/slurm/exec.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/text.h"
#include "engine/slurm/host_list.h"
#include "engine/slurm/scale_nodes.h"

namespace trainyard::engine::slurm {
namespace {

constexpr seconds kLookKept{1};    // Of many nodes at once, each need not ask Slurm again.
constexpr seconds kReach{20};      // For srun to get from an allocation to a process.
constexpr int kMinutesSpare = 2;   // Slurm's own limit is for when nobody ends the command.
constexpr int kMemoryMb = 256;     // Without, a job may get all that a node has.
constexpr int kAtOnceHere = 16;    // A process of srun each.
constexpr int kAtOnceSsh = 4;      // A session each of the ten that sshd allows a connection.
constexpr int kExitTimeout = 124;  // As timeout(1) has it.
constexpr int kExitStopped = 143;  // By a SIGTERM.

// What a site may ask of every job before it lets it in. Others of a target's lines are for what
// its runs need.
constexpr std::string_view kAdmission[] = {"--account=", "--qos=", "--reservation=", "--wckey="};

// In an environment as a login's: what srun has of ours does not go along.
constexpr const char* kOnNode =
    "PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}; export PATH; "
    "echo trainyard:begun; exec \"$@\" 2>&1";

bool takes_jobs(const NodeState& state) {
  return state.is == NodeState::Is::idle || state.is == NodeState::Is::running;
}

class SlurmShell : public NodeShell {
 public:
  explicit SlurmShell(ShellOptions options) : options_(std::move(options)) {}

  Result<std::vector<Named>> nodes() override {
    TRY_SET(const Look look, look());
    const bool come_and_go = !options_.compute.node_up.empty();
    std::vector<Named> named;
    for (const NodeState& state : look.nodes) {
      named.push_back({state.name, come_and_go && state.is == NodeState::Is::off});
    }
    return named;
  }

  Result<Ended> run(const Wish& wish) override {
    ExecPlan plan{
        .node = wish.node, .command = wish.command, .timeout = wish.timeout, .wait = wish.wait};
    TRY_SET(const Look look, look());
    TRY(check(look, wish.node));
    plan.beside = job_on(look, wish.node);
    Result<Ended> ran = attempt(plan, wish);
    if (ran || plan.beside == 0 || ran.error().kind != ErrorKind::conflict) return ran;
    plan.beside = 0;  // That job has ended meanwhile.
    return attempt(plan, wish);
  }

  int at_once() const override { return options_.compute.ssh.empty() ? kAtOnceHere : kAtOnceSsh; }

 private:
  struct Look {
    std::vector<NodeState> nodes;
    std::vector<Job> jobs;
  };

  Result<Look> look() {
    std::lock_guard lock(mutex_);
    const SteadyTime now = options_.clock.steady();
    if (kept_ && now - kept_at_ < kLookKept) return *kept_;
    TRY_SET(const std::vector<Node> nodes, options_.commands->nodes());
    Look look;
    look.nodes = nodes_as_seen(nodes, options_.compute.partition, options_.server_id).nodes;
    TRY_SET(look.jobs, options_.commands->queue());
    kept_ = std::move(look);
    kept_at_ = options_.clock.steady();
    return *kept_;
  }

  Status check(const Look& look, const std::string& node) const {
    const auto found = std::ranges::find(look.nodes, node, &NodeState::name);
    if (found == look.nodes.end()) return fail(ErrorKind::not_found, "there is no node " + node);
    if (takes_jobs(*found)) return {};
    if (found->is == NodeState::Is::off && !options_.compute.node_up.empty()) {
      return fail(ErrorKind::unavailable,
                  "node " + node + " is off: it is brought up when a run needs it");
    }
    const std::string why = found->reason.empty() ? "it does not answer" : found->reason;
    return fail(ErrorKind::unavailable, "node " + node + " takes no commands: " + why);
  }

  int64_t job_on(const Look& look, const std::string& node) const {
    for (const Job& job : look.jobs) {
      if (phase_of(job.state) != Phase::running) continue;
      if (!attempt_of(job.comment, options_.owner) &&
          !attempt_of(job.comment, home_of(options_.owner))) {
        continue;
      }
      const std::vector<std::string> hosts = expand_hosts(job.node_list);
      if (std::ranges::find(hosts, node) != hosts.end()) return job.jobid();
    }
    return 0;
  }

  // `conflict`: there was no such job to go beside.
  Result<Ended> attempt(const ExecPlan& plan, const Wish& wish) {
    ExecStart start;
    std::optional<SteadyTime> begun;
    const SteadyTime asked = options_.clock.steady();
    bool late = false;
    Commands::Stream stream;
    stream.print = [&](std::string_view bytes) {
      const std::string_view text = start.take(bytes);
      if (start.begun() && !begun) begun = options_.clock.steady();
      if (!text.empty()) wish.print(text);
    };
    stream.wanted = [&] {
      const SteadyTime until = begun ? *begun + plan.timeout : asked + plan.wait + kReach;
      late = late || options_.clock.steady() >= until;
      return !late && wish.wanted();
    };
    TRY_SET(const Commands::StreamEnd end,
            options_.commands->stream(exec_words(plan, options_.compute), stream));
    if (!begun && !late && !wish.wanted()) return Ended{kExitStopped, {}};
    if (!begun) return std::unexpected(exec_refusal(plan, end.errors));
    if (!late) return Ended{end.exit_code, {}};
    return Ended{kExitTimeout,
                 "it did not end within " + std::to_string(plan.timeout.count()) + " s"};
  }

  const ShellOptions options_;
  std::mutex mutex_;
  std::optional<Look> kept_;  // Held by mutex_, as is this.
  SteadyTime kept_at_{};
};

}  // namespace

std::vector<std::string> exec_words(const ExecPlan& plan, const ComputeSpec& compute) {
  std::vector<std::string> words{"srun",
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--cpus-per-task=1",
                                 "--mpi=none",
                                 "--input=none",
                                 "--unbuffered",
                                 "--chdir=/",
                                 "--export=HOME,USER,LOGNAME,LANG"};
  words.push_back("--nodelist=" + plan.node);
  if (plan.beside > 0) {
    // What the job has is shared with its ranks; its memory is theirs and ours together.
    words.insert(words.end(), {"--jobid=" + std::to_string(plan.beside), "--overlap", "--mem=0"});
  } else {
    const auto option = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) words.push_back(std::string(name) + value);
    };
    const seconds limit = plan.timeout + kReach;
    option("--partition=", compute.partition);
    option("--account=", compute.account);
    option("--qos=", compute.qos);
    for (const std::string& line : compute.sbatch) {
      const bool admits = std::ranges::any_of(
          kAdmission, [&](std::string_view name) { return line.starts_with(name); });
      if (admits && line.find_first_of(" \t\"'") == std::string::npos) words.push_back(line);
    }
    option("--job-name=", "trainyard-exec");
    option("--mem=", std::to_string(kMemoryMb) + "M");
    option("--time=", std::to_string(limit.count() / 60 + kMinutesSpare));
    option("--immediate=", std::to_string(std::max<int64_t>(plan.wait.count(), 1)));
  }
  words.insert(words.end(), {"/bin/sh", "-c", kOnNode, "sh"});
  words.insert(words.end(), plan.command.begin(), plan.command.end());
  return words;
}

std::string_view ExecStart::take(std::string_view bytes) {
  while (!begun() && !bytes.empty()) {
    // What a site's prolog prints before is not the command's.
    seen_ = bytes.front() == kWord[seen_] ? seen_ + 1 : (bytes.front() == kWord.front() ? 1 : 0);
    bytes.remove_prefix(1);
  }
  return bytes;
}

Error exec_refusal(const ExecPlan& plan, std::string_view errors) {
  const auto has = [&](std::string_view word) {
    return errors.find(word) != std::string_view::npos;
  };
  if (plan.beside > 0 && (has("Invalid job id") || has("already completed") || has("expired"))) {
    return {ErrorKind::conflict, slurm_words(errors), {}};
  }
  if (has("are busy") || has("Connection timed out") || has("temporarily unavailable")) {
    return {ErrorKind::unavailable,
            "node " + plan.node + " is busy: no room for a command within " +
                std::to_string(plan.wait.count()) + " s",
            "Jobs of others have it. Wait longer with --wait TIME."};
  }
  const std::string words = slurm_words(errors);
  return {ErrorKind::unavailable,
          "node " + plan.node + ": " + (words.empty() ? "srun did not start the command" : words),
          {}};
}

std::shared_ptr<NodeShell> make_shell(ShellOptions options) {
  return std::make_shared<SlurmShell>(std::move(options));
}

}  // namespace trainyard::engine::slurm
